//! What clients show to come in, and the file that has their passwords: what is read of a log-in is what was encoded, and
//! a hash that is accepted can be checked against any password.

use nightwatt_gateway::admittance::Login;
use nightwatt_gateway::config::Users;

/// Passwords are checked for files of at most this length: a hash is slow on purpose.
const SHORT: usize = 64;

/// Runs the target on one input.
pub fn run(input: &[u8]) {
    if let Some(login) = Login::read(input) {
        assert!(!login.user.contains(':'));
        let secret = [login.user.as_bytes(), b":", &login.password].concat();
        assert!(!secret.iter().any(u8::is_ascii_control));
        assert!(secret.len() < input.len(), "base64 is longer than what it encodes");
    }
    let text = String::from_utf8_lossy(input);
    if let Ok(users) = Users::parse(&text) {
        assert!(users.count() > 0);
        // Costs are in the hash: only those that are known to be cheap.
        if text.len() <= SHORT && text.contains("$5$") && !text.contains("rounds=") {
            assert!(!users.check("a:b", input));
        }
    }
}
