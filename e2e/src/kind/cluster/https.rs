//! Certificates for HTTPS between my-scheduler and the extender, made anew for each cluster, as the Secrets that the
//! patches of `deploy/` name.

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};

use super::KindCluster;
use super::install::SYSTEM;

const EXTENDER_PATCH: &str = include_str!("../../../../deploy/https-extender-patch.yml");
const MY_SCHEDULER_PATCH: &str = include_str!("../../../../deploy/https-my-scheduler-patch.yml");
/// The extender as schedulers call it.
const EXTENDER_HOST: &str = "k8s-neuron-scheduler.kube-system.svc.cluster.local";

impl KindCluster {
    /// Makes my-scheduler and the extender talk HTTPS with client certificates.
    pub(super) async fn use_https(&self) -> anyhow::Result<()> {
        let secrets = secrets().context("making certificates")?;
        self.driver.kubectl(&["apply", "-f", "-"], &secrets.to_string()).await?;
        let patch = |deployment: &'static str, patch: &'static str| async move {
            self.driver
                .kubectl(&["-n", SYSTEM, "patch", "deployment", deployment, "--patch", patch], "")
                .await
        };
        tokio::try_join!(
            patch("k8s-neuron-scheduler", EXTENDER_PATCH),
            patch("my-scheduler", MY_SCHEDULER_PATCH)
        )?;
        Ok(())
    }
}

/// Both Secrets. One CA signs both sides; it signs nothing else, and its key is not kept.
fn secrets() -> anyhow::Result<Value> {
    let key = KeyPair::generate()?;
    let mut params = named("neuron-e2e")?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let ca = params.self_signed(&key)?.pem();
    let issuer = Issuer::new(params, key);
    let extender = CertificateParams::new([EXTENDER_HOST.to_owned()])?;
    let server = secret("neuron-scheduler-tls", extender, ExtendedKeyUsagePurpose::ServerAuth, &issuer, &ca)?;
    let scheduler = named("my-scheduler")?;
    let client = secret("my-scheduler-tls", scheduler, ExtendedKeyUsagePurpose::ClientAuth, &issuer, &ca)?;
    Ok(json!({"apiVersion": "v1", "kind": "List", "items": [server, client]}))
}

fn named(name: &str) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}

fn secret(
    name: &str,
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
    ca: &str,
) -> anyhow::Result<Value> {
    params.extended_key_usages = vec![purpose];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?.pem();
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name, "namespace": SYSTEM},
        "stringData": {"tls.crt": certificate, "tls.key": key.serialize_pem(), "ca.crt": ca},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_a_certificate_a_key_and_the_other_sides_ca() {
        let secrets = secrets().unwrap();
        for item in secrets["items"].as_array().unwrap() {
            let data = &item["stringData"];
            for (file, begins) in [
                ("tls.crt", "-----BEGIN CERTIFICATE"),
                ("tls.key", "-----BEGIN PRIVATE KEY"),
                ("ca.crt", "-----BEGIN CERTIFICATE"),
            ] {
                assert!(data[file].as_str().unwrap().starts_with(begins), "{item}");
            }
        }
        assert_eq!(secrets["items"][0]["stringData"]["ca.crt"], secrets["items"][1]["stringData"]["ca.crt"]);
    }
}
