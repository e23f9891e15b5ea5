//! Why the files of HTTPS cannot be used. Ends the program at the start; later it is logged and the files
//! before go on being served.

use std::path::PathBuf;

use jiff::Timestamp;
use rustls::pki_types::{UnixTime, pem};
use rustls::server::VerifierBuilderError;

/// Why the files of HTTPS cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    /// The file is not there or cannot be read.
    #[error("the TLS file {path} cannot be read: {source}")]
    Read { path: PathBuf, source: std::io::Error },
    /// The file of certificates is damaged.
    #[error("the TLS file {path} is not readable PEM: {source}")]
    Pem { path: PathBuf, source: pem::Error },
    /// The file has no certificate.
    #[error("the TLS file {path} contains no certificate; give PEM with -----BEGIN CERTIFICATE-----")]
    NoCertificate { path: PathBuf },
    /// The file has no private key, or a damaged one.
    #[error("the TLS file {path} contains no private key: {source}; give a PEM key without a password")]
    Key { path: PathBuf, source: pem::Error },
    /// The certificate is no longer valid.
    #[error("the certificate in {path} has expired at {since}; renew it")]
    Expired {
        path: PathBuf,
        /// When, RFC 3339.
        since: String,
    },
    /// The certificate is not valid yet.
    #[error("the certificate in {path} is valid only from {from}; wait, or check the clock")]
    NotYet {
        path: PathBuf,
        /// The first moment at which it is valid, RFC 3339.
        from: String,
    },
    /// The key is not the certificate's.
    #[error("the private key {key} does not belong to the certificate {certificate}; give both of one pair")]
    Mismatch { certificate: PathBuf, key: PathBuf },
    /// rustls does not take what the file contains.
    #[error("the TLS file {path} cannot be used: {source}")]
    Unusable { path: PathBuf, source: rustls::Error },
    /// Client certificates cannot be checked against the file.
    #[error("the client CA file {path} cannot be used: {source}")]
    ClientCa { path: PathBuf, source: VerifierBuilderError },
}

/// The time as RFC 3339.
pub(crate) fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string()
}
