//! Bindings that wait at the API server before it carries them out: a webhook, which is this program, takes them and never answers. Who
//! sent one may be stopped meanwhile. One whose time is over before it is released (the extender tells the API server how long a Binding may
//! take) is sent anew then, in its sender's name, as if the network had delivered it late. Called by [`crate::kind::stage`].

use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError};

use anyhow::Context as _;
use k8s_openapi::ByteString;
use kind_driver::WAIT;
use neuron_e2e_engine::cluster::NAMESPACE;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::KindCluster;
use super::held_calls::{Calls, HeldBinding, serve, tls};

/// The webhooks' object.
const NAME: &str = "neuron-e2e-held-bindings";
/// No pod has this name: what is said of its Binding tells whether the API server asks webhooks.
const PROBE: &str = "neuron-e2e-is-there-a-webhook";
/// Where nobody listens, so that the probe is refused at once.
const NOWHERE: &str = "https://127.0.0.1:1/";
/// What the API server says of the probe then.
const ASKED: &str = "failed calling webhook";
/// How many seconds the API server waits for a webhook, at most; then the Binding is carried out, if its time is not over.
const LONGEST: u8 = 30;
/// What kubectl says of a Binding that comes too late: its pod is bound, is another one of the same name, or is gone.
const TOO_LATE: [&str; 2] = ["(Conflict)", "(NotFound)"];

/// The webhook.
pub(super) struct HeldBindings {
    calls: Arc<Calls>,
    /// Where it is dropped its calls are closed, and the API server carries out what they ask about.
    serving: JoinSet<()>,
}

impl KindCluster {
    /// Bindings of these pods wait from now on: at the API server for half a minute at most, and where it has given one up by then, here.
    pub(in crate::kind) async fn hold_bindings(&self, pods: &[String]) -> anyhow::Result<()> {
        let ip = self.proxy.address().ip();
        let (acceptor, certificate) = tls(ip).context("making the webhook's certificate")?;
        let listener = TcpListener::bind((ip, 0)).await.with_context(|| format!("no free port of {ip}"))?;
        let webhooks = configuration(listener.local_addr()?, certificate, pods)?;
        let calls = Arc::new(Calls::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&calls)));
        *self.held() = Some(HeldBindings { calls, serving });
        self.driver.kubectl(&["apply", "-f", "-"], &webhooks.to_string()).await?;
        WAIT.until("the API server to ask a webhook about Bindings", async || self.asks_webhooks().await)
            .await
    }

    /// Whether a Binding waits now.
    pub(in crate::kind) fn is_binding_held(&self) -> bool {
        self.held().as_ref().is_some_and(|held| held.calls.is_any())
    }

    /// Lets Bindings that wait be carried out, and later ones pass.
    pub(in crate::kind) async fn release_bindings(&self) -> anyhow::Result<()> {
        let Some(HeldBindings { calls, serving }) = self.held().take() else { return Ok(()) };
        drop(serving);
        let delete = ["delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found"];
        self.driver.kubectl(&delete, "").await?;
        // Asked only now, when no call is under way any more: each was given up by the API server, or it was closed from here and its Binding
        // is carried out there. One whose time ends just when its call is closed is lost, as a network loses one now and then.
        for binding in calls.given_up() {
            self.deliver_late(&binding).await?;
        }
        Ok(())
    }

    /// Sends a Binding that the API server has given up, which reads it only now.
    async fn deliver_late(&self, binding: &HeldBinding) -> anyhow::Result<()> {
        let arguments = late_binding(binding);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        match self.driver.kubectl(&arguments, &binding.object.to_string()).await {
            Err(refused) if !TOO_LATE.iter().any(|reason| format!("{refused:#}").contains(reason)) => {
                Err(refused.context(format!("the late Binding of pod {}", binding.name)))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn asks_webhooks(&self) -> anyhow::Result<bool> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{PROBE}/binding");
        let target = json!({"kind": "Node", "name": "none"});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": PROBE}, "target": target});
        let answer = self.driver.kubectl(&["create", "--raw", &path, "-f", "-"], &binding.to_string()).await;
        Ok(answer.is_err_and(|refused| format!("{refused:#}").contains(ASKED)))
    }

    fn held(&self) -> MutexGuard<'_, Option<HeldBindings>> {
        self.held_bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What kubectl is asked for, so that the API server takes it for the Binding's sender.
fn late_binding(HeldBinding { namespace, name, user_info: sender, .. }: &HeldBinding) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    let mut arguments: Vec<String> =
        ["create", "--raw", &path, "-f", "-"].into_iter().map(str::to_owned).collect();
    arguments.push(format!("--as={}", sender.username));
    arguments.extend(sender.groups.iter().map(|group| format!("--as-group={group}")));
    arguments
}

/// The webhook for Bindings of these pods, and beside it one that refuses the probe: the API server hears of both at one time.
fn configuration(address: SocketAddr, certificate: String, pods: &[String]) -> anyhow::Result<Value> {
    let certificate = ByteString(certificate.into_bytes());
    let webhook = |name: &str, url: &str, policy: &str, expression: String| {
        json!({
            "name": format!("{name}.bindings.neuron-e2e"),
            "clientConfig": {"url": url, "caBundle": certificate},
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods/binding"],
            }],
            "matchConditions": [{
                "name": "is-its-pod",
                "expression": format!("request.namespace == '{NAMESPACE}' && {expression}"),
            }],
            "failurePolicy": policy,
            "timeoutSeconds": LONGEST,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    };
    let names = serde_json::to_string(pods)?;
    let held = webhook("held", &format!("https://{address}/"), "Ignore", format!("request.name in {names}"));
    let probe = webhook("probe", NOWHERE, "Fail", format!("request.name == '{PROBE}'"));
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [held, probe],
    }))
}

#[cfg(test)]
mod tests {
    use super::super::held_calls::Sender;
    use super::*;

    #[test]
    fn bindings_of_other_pods_pass() {
        let pods = ["late".to_owned(), "later".to_owned()];
        let address = "172.18.0.1:40001".parse().unwrap();
        let webhooks = configuration(address, "PEM".to_owned(), &pods).unwrap();
        let held = &webhooks["webhooks"][0];
        let expression = &held["matchConditions"][0]["expression"];
        assert_eq!(expression, r#"request.namespace == 'default' && request.name in ["late","later"]"#);
        assert_eq!(held["clientConfig"], json!({"url": "https://172.18.0.1:40001/", "caBundle": "UEVN"}));
        assert_eq!(held["failurePolicy"], "Ignore", "it is carried out once nobody answers");
    }

    #[test]
    fn a_late_binding_is_sent_in_its_senders_name() {
        let user_info = Sender { username: "system:extender".to_owned(), groups: vec!["g".to_owned()] };
        let binding = HeldBinding {
            namespace: "default".to_owned(),
            name: "late".to_owned(),
            object: Value::Null,
            user_info,
        };
        assert_eq!(
            late_binding(&binding).join(" "),
            "create --raw /api/v1/namespaces/default/pods/late/binding -f - --as=system:extender --as-group=g"
        );
    }
}
