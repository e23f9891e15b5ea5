//! The certificate by which kube-scheduler knows the extender over HTTPS: its own authority, made for one measurement.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use neuron_extender::TlsFiles;
use rcgen::{CertificateParams, KeyPair};

const FOLDER: &str = "extender-tls";
const CERTIFICATE: &str = "extender.crt";
const KEY: &str = "extender.key";

/// A certificate whose files are in a folder.
pub(super) struct Certificate {
    folder: PathBuf,
    pem: String,
    der: Vec<u8>,
}

impl Certificate {
    /// Makes one for this address. Its files get a folder of their own under the `parent`: the extender reads them again when anything changes
    /// in their folder, and logs are written to the `parent`.
    ///
    /// # Errors
    /// The files cannot be written.
    pub(super) fn make(address: IpAddr, parent: &Path) -> anyhow::Result<Self> {
        let folder = parent.join(FOLDER);
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        let key = KeyPair::generate().context("a key for the extender")?;
        let params =
            CertificateParams::new([address.to_string()]).context("a certificate for the extender")?;
        let made = params.self_signed(&key).context("a certificate for the extender")?;
        let write = |name: &str, text: String| {
            std::fs::write(folder.join(name), text)
                .with_context(|| format!("writing {name} to {}", folder.display()))
        };
        write(CERTIFICATE, made.pem())?;
        write(KEY, key.serialize_pem())?;
        Ok(Self { folder, pem: made.pem(), der: made.der().to_vec() })
    }

    /// The files of one in a folder, as the extender takes them.
    pub(super) fn files(folder: &Path) -> TlsFiles {
        TlsFiles { certificate: folder.join(CERTIFICATE), key: folder.join(KEY), client_ca: None }
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// In PEM.
    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    /// In DER.
    pub(super) fn der(&self) -> &[u8] {
        &self.der
    }
}
