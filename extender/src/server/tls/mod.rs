//! HTTPS from files: makes rustls' configuration of certificate, key and client CA, at the start and whenever they change.
//! Called by [`crate::serve`].
//!
//! With a client CA the verbs need a client certificate, but the health paths on the same port do not, since kubelet's
//! probes have none. So the handshake asks for a certificate without insisting (one that another CA signed ends it), and
//! the routes of the verbs refuse calls that came without.
//!
//! Every certificate that the client CA signed may schedule: give a CA of the scheduler's own, not the cluster's.
//!
//! Keys and nonces are the one thing that is not drawn by the [`System`]: ring draws them, and takes them from nobody.

mod accept;
mod common_name;
mod error;
mod live;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use runtime::System;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{CertificateError, RootCertStore, ServerConfig};

pub(crate) use self::accept::{Peer, prepare};
use self::error::TlsError;
pub(crate) use self::live::{LiveTls, ServedTls};

/// What a client says in its handshake that speaks HTTP/2 (RFC 9113, 3.2).
const HTTP2: &[u8] = b"h2";

/// Where the files of HTTPS are, all PEM. They may be replaced at any time, such as by a mounted Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, then those that lead to its CA.
    pub certificate: PathBuf,
    /// The private key of the first certificate: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// The CAs whose client certificates may call the verbs; without it anyone may who reaches the port.
    pub client_ca: Option<PathBuf>,
}

/// The system's clock, by which certificates are judged.
#[derive(Debug)]
struct WallClock(System);

/// What the files contain.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl WallClock {
    fn time(&self) -> UnixTime {
        // No certificate is as old as 1970.
        UnixTime::since_unix_epoch(self.0.now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.time())
    }
}

impl TlsFiles {
    async fn read(&self, system: &System) -> Result<Contents, TlsError> {
        let read = async |path: &PathBuf| {
            system.read(path).await.map_err(|source| TlsError::Read { path: path.clone(), source })
        };
        // One after the other: two of them may be one file, which is read once at a time.
        Ok(Contents {
            certificate: read(&self.certificate).await?,
            key: read(&self.key).await?,
            client_ca: match &self.client_ca {
                Some(path) => Some(read(path).await?),
                None => None,
            },
        })
    }

    fn server_config(&self, contents: &Contents, system: &System) -> Result<ServerConfig, TlsError> {
        // The provider is named here, so that a caller of the library need not have installed one.
        let provider = Arc::new(ring::default_provider());
        let clock = WallClock(system.clone());
        let certified = self.certified_key(contents, &provider, clock.time())?;
        let client_ca = match self.client_ca.as_ref().zip(contents.client_ca.as_ref()) {
            Some((path, pem)) => Some(client_verifier(path, pem, provider.clone(), clock.time())?),
            None => None,
        };
        let builder = ServerConfig::builder_with_details(provider, Arc::new(clock))
            .with_safe_default_protocol_versions()
            .map_err(|source| TlsError::Unusable { path: self.certificate.clone(), source })?;
        let builder = match client_ca {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        // The first that the client has, too.
        config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }

    fn certified_key(
        &self,
        contents: &Contents,
        provider: &CryptoProvider,
        now: UnixTime,
    ) -> Result<CertifiedKey, TlsError> {
        let chain = certificates(&self.certificate, &contents.certificate)?;
        if let Some(first) = chain.first() {
            check_dates(&self.certificate, first, provider, now)?;
        }
        let key = PrivateKeyDer::from_pem_slice(&contents.key)
            .map_err(|source| TlsError::Key { path: self.key.clone(), source })?;
        let key = provider
            .key_provider
            .load_private_key(key)
            .map_err(|source| TlsError::Unusable { path: self.key.clone(), source })?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|source| match source {
            rustls::Error::InconsistentKeys(_) => {
                TlsError::Mismatch { certificate: self.certificate.clone(), key: self.key.clone() }
            }
            source => TlsError::Unusable { path: self.certificate.clone(), source },
        })?;
        Ok(certified)
    }
}

fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|source| TlsError::Pem { path: path.to_owned(), source })?;
    if found.is_empty() { Err(TlsError::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

fn client_verifier(
    path: &Path,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
    now: UnixTime,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let mut out_of_date = None;
    for certificate in certificates(path, pem)? {
        // While a CA is replaced, a bundle holds the old one beside the new. Verifiers never look at a CA's dates.
        match check_dates(path, &certificate, &provider, now) {
            Ok(()) => roots
                .add(certificate)
                .map_err(|source| TlsError::Unusable { path: path.to_owned(), source })?,
            Err(error) => out_of_date = Some(error),
        }
    }
    match out_of_date {
        Some(error) if roots.is_empty() => Err(error),
        _ => WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .allow_unauthenticated()
            .build()
            .map_err(|source| TlsError::ClientCa { path: path.to_owned(), source }),
    }
}

/// Checks that the certificate is valid now. Verifying it without any root fails at its dates or, if they are right, at
/// something later, which is for clients to check.
fn check_dates(
    path: &Path,
    certificate: &CertificateDer<'_>,
    provider: &CryptoProvider,
    now: UnixTime,
) -> Result<(), TlsError> {
    let path = path.to_owned();
    let parsed = match ParsedCertificate::try_from(certificate) {
        Ok(parsed) => parsed,
        Err(source) => return Err(TlsError::Unusable { path, source }),
    };
    let (roots, algorithms) = (RootCertStore::empty(), provider.signature_verification_algorithms.all);
    match verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms) {
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Err(TlsError::Expired { path, since: error::date(not_after) })
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => Err(TlsError::NotYet { path, from: error::date(not_before) }),
        _ => Ok(()),
    }
}
