//! Our account with an authority. It is kept, since authorities limit how many accounts one may open.

use std::path::Path;

use instant_acme::{Account, AccountBuilder, AccountCredentials, NewAccount};
use nightwatt_host::tls;

use super::order::Failed;
use super::web::Web;
use crate::config::{AcmeConfig, tag};

/// The account kept in this folder; a new one if the folder has none for this authority.
pub(super) async fn open(acme: &AcmeConfig, dir: &Path) -> Result<Account, Failed> {
    let url = acme.url();
    let path = dir.join(format!("account-{}.json", tag(url)));
    let failed = |error| Failed::file(&path, error);
    match std::fs::read(&path) {
        Ok(text) => {
            let kept: AccountCredentials =
                serde_json::from_slice(&text).map_err(|error| failed(error.into()))?;
            Ok(builder(acme)?.from_credentials(kept).await?)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let contact = acme.email.as_ref().map(|it| format!("mailto:{it}"));
            let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
            let new = NewAccount {
                contact: &contact,
                terms_of_service_agreed: acme.terms_agreed,
                only_return_existing: false,
            };
            let (account, kept) = builder(acme)?.create(&new, url.to_owned(), None).await?;
            let text = serde_json::to_vec(&kept).map_err(|error| failed(error.into()))?;
            super::replace(&path, &text).map_err(failed)?;
            Ok(account)
        }
        Err(error) => Err(failed(error)),
    }
}

fn builder(acme: &AcmeConfig) -> Result<AccountBuilder, Failed> {
    let trust = tls::config(acme.ca.as_deref(), None).map_err(Failed::Trust)?;
    Ok(Account::builder_with_http(Box::new(Web(trust))))
}
