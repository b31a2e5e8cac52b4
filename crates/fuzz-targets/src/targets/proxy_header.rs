//! Headers of the PROXY protocol: whatever comes is taken, refused or waited for, what is decided does not
//! depend on how much has come when it is looked at, and what is written reads back.

use nightwatt_gateway::config::HeaderVersion;
use nightwatt_gateway::proxy_protocol::{LONGEST_V2, header, write};

/// Runs the target on one input.
pub fn run(bytes: &[u8]) {
    let all = header(bytes).map_err(|wrong| wrong.to_string());
    if bytes.len() >= LONGEST_V2 {
        assert_ne!(all, Ok(None), "waited for without end");
    }
    // The first decision on the way is the last one.
    for end in 1..bytes.len() {
        let part = header(&bytes[..end]).map_err(|wrong| wrong.to_string());
        if part != Ok(None) {
            assert_eq!(part, all, "decided after {end} bytes");
            break;
        }
    }
    if let Ok(Some((client, length))) = all {
        assert!(length <= bytes.len());
        if let Some(client) = client {
            for version in [HeaderVersion::V1, HeaderVersion::V2] {
                let written = write(version, client, client);
                let (again, whole) = header(&written).unwrap().expect("a whole header");
                let again = again.expect("it names somebody");
                assert_eq!(whole, written.len());
                assert_eq!(
                    (again.ip().to_canonical(), again.port()),
                    (client.ip().to_canonical(), client.port())
                );
            }
        }
    }
}
