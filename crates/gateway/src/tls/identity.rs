//! What a certificate is known by at its authority: the key that signed it, and its serial number (RFC 9773, 4.1).
//! Parses only as much of X.509 as that needs.

use super::validity::{SEQUENCE, VERSION, element};

/// Tags of DER.
const INTEGER: u8 = 0x02;
const BOOLEAN: u8 = 0x01;
const OCTETS: u8 = 0x04;
const EXTENSIONS: u8 = 0xa3;
const KEY_IDENTIFIER: u8 = 0x80;

/// The extension that names the key of the authority: 2.5.29.35, in DER (RFC 5280, 4.2.1.1).
const AUTHORITY_KEY: &[u8] = &[0x06, 0x03, 0x55, 0x1d, 0x23];

/// What a certificate is known by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The identifier of the authority's key.
    pub authority_key: Vec<u8>,
    /// The serial number, as it is in the certificate.
    pub serial: Vec<u8>,
}

impl Identity {
    /// Reads a certificate in DER; nothing if it is not one, or does not name its authority's key.
    pub fn read(certificate: &[u8]) -> Option<Self> {
        let (signed, _) = element(certificate, Some(SEQUENCE))?;
        let (mut fields, _) = element(signed, Some(SEQUENCE))?;
        if fields.first() == Some(&VERSION) {
            fields = element(fields, None)?.1;
        }
        let (serial, mut fields) = element(fields, Some(INTEGER))?;
        while fields.first() != Some(&EXTENSIONS) {
            fields = element(fields, None)?.1;
        }
        let (extensions, _) = element(fields, Some(EXTENSIONS))?;
        let (mut extensions, _) = element(extensions, Some(SEQUENCE))?;
        while !extensions.is_empty() {
            let (extension, rest) = element(extensions, Some(SEQUENCE))?;
            extensions = rest;
            let Some(mut value) = extension.strip_prefix(AUTHORITY_KEY) else { continue };
            if value.first() == Some(&BOOLEAN) {
                value = element(value, None)?.1;
            }
            let (value, _) = element(value, Some(OCTETS))?;
            let (value, _) = element(value, Some(SEQUENCE))?;
            let (key, _) = element(value, Some(KEY_IDENTIFIER))?;
            return Some(Self { authority_key: key.to_vec(), serial: serial.to_vec() });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use instant_acme::CertificateIdentifier;
    use rcgen::{CertificateParams, IsCa, Issuer, KeyIdMethod, KeyPair, SerialNumber};

    use super::*;

    /// The key and the serial number of the example in RFC 9773, 4.1, with its result.
    #[test]
    fn a_certificate_is_known_by_its_authoritys_key_and_its_serial_number() {
        let key = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0,
            0xae, 0x2c, 0xde, 0x01, 0xc8, 0xd4,
        ];
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.key_identifier_method = KeyIdMethod::PreSpecified(key.to_vec());
        let authority = Issuer::new(authority, KeyPair::generate().unwrap());
        let mut params = CertificateParams::new(["example.com".to_owned()]).unwrap();
        params.serial_number = Some(SerialNumber::from_slice(&[0x87, 0x65, 0x43, 0x21]));
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
        let it = Identity::read(certificate.der()).unwrap();
        assert_eq!(
            (it.authority_key.as_slice(), it.serial.as_slice()),
            (&key[..], &[0, 0x87, 0x65, 0x43, 0x21][..])
        );
        let id = CertificateIdentifier::new(it.authority_key.into(), it.serial.into());
        assert_eq!(id.to_string(), "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE");
    }

    #[test]
    fn a_certificate_that_signed_itself_has_no_authority() {
        let params = CertificateParams::new(["example.com".to_owned()]).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        assert_eq!(Identity::read(certificate.der()), None);
        for length in 0..certificate.der().len() {
            assert_eq!(Identity::read(&certificate.der()[..length]), None);
        }
    }
}
