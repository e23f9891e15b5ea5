//! Why the files of HTTPS cannot be used. Ends the program at the start; later it is logged and the files
//! before go on being served.

use std::path::PathBuf;

use jiff::Timestamp;
use rustls::pki_types::{UnixTime, pem};
use rustls::server::VerifierBuilderError;

/// Why the files of HTTPS cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// Not there, or not readable.
    #[error("the TLS file {path} cannot be read: {source}")]
    Read {
        /// The path given.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Damaged certificates.
    #[error("the TLS file {path} is not readable PEM: {source}")]
    Pem {
        /// The path given.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// No certificate in it.
    #[error("the TLS file {path} contains no certificate; give PEM with -----BEGIN CERTIFICATE-----")]
    NoCertificate {
        /// The path given.
        path: PathBuf,
    },
    /// No private key in it, or a damaged one.
    #[error("the TLS file {path} contains no private key: {source}; give a PEM key without a password")]
    Key {
        /// The path given.
        path: PathBuf,
        /// What is wrong.
        source: pem::Error,
    },
    /// Not of today: over.
    #[error("the certificate in {path} has expired at {since}; renew it")]
    Expired {
        /// The path given.
        path: PathBuf,
        /// When, RFC 3339.
        since: String,
    },
    /// Not of today: to come.
    #[error("the certificate in {path} is valid only from {from}; wait, or check the clock")]
    NotYet {
        /// The path given.
        path: PathBuf,
        /// From when, RFC 3339.
        from: String,
    },
    /// Two files that do not belong together.
    #[error("the private key {key} does not belong to the certificate {certificate}; give both of one pair")]
    Mismatch {
        /// The path of the certificate.
        certificate: PathBuf,
        /// The path of the key.
        key: PathBuf,
    },
    /// Readable, but not what TLS takes.
    #[error("the TLS file {path} cannot be used: {source}")]
    Unusable {
        /// The path given.
        path: PathBuf,
        /// What rustls says.
        source: rustls::Error,
    },
    /// Client certificates cannot be judged by it.
    #[error("the client CA file {path} cannot be used: {source}")]
    ClientCa {
        /// The path given.
        path: PathBuf,
        /// What rustls says.
        source: VerifierBuilderError,
    },
}

/// The time as RFC 3339.
pub(crate) fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}
