//! What the extender logs: fields, not sentences to be taken apart, and nothing twice about a pod that waits.

use std::io;
use std::sync::{Arc, Mutex, OnceLock};

use neuron_core::catalog::Catalog;
use neuron_core::topology::{Policy, rules};
use testkit_support::eventually;
use tracing_subscriber::fmt::MakeWriter;

use crate::support::World;

/// Lines at info and above of this thread, on which the whole extender of a test runs.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn start() -> (Log, tracing::subscriber::DefaultGuard) {
        // With one subscriber alone tracing asks the thread that is first to come to a line whether anybody wants it, for all
        // threads: a test that keeps no log would keep the line from the one that does.
        static SECOND: OnceLock<tracing::Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| {
            let nobody = tracing_subscriber::fmt().with_max_level(tracing::Level::INFO).with_writer(io::sink);
            nobody.finish().into()
        });
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    /// The lines with this text.
    pub(crate) fn lines(&self, text: &str) -> Vec<String> {
        let bytes = self.0.lock().unwrap();
        let lines = std::str::from_utf8(&bytes).unwrap().lines();
        lines.filter(|line| line.contains(text)).map(|line| line.trim().to_owned()).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Log;

    fn make_writer(&self) -> Log {
        self.clone()
    }
}

#[tokio::test]
async fn a_bind_is_logged_with_its_devices_or_the_reason_why_not() {
    let (log, _guard) = Log::start();
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let (devices, cores) = (world.pod("two", "neuron", 2).await, world.pod("three", "neuroncore", 3).await);
    let many = world.pod("many", "neuron", 6).await;
    assert_eq!(world.bind(&devices, "n1").await, "");
    assert_eq!(world.bind(&cores, "n1").await, "");
    assert_ne!(world.bind(&many, "n1").await, "");
    assert_eq!(
        log.lines("bind{"),
        [
            r#"INFO bind{pod="default/two" node="n1"}: pod bound devices="0,1""#,
            r#"INFO bind{pod="default/three" node="n1"}: pod bound cores="4,5,6""#,
            r#"WARN bind{pod="default/many" node="n1"}: pod not bound reason="not enough free: Neuron devices asked 6, free 2 of 6""#,
        ]
    );
}

#[tokio::test]
async fn a_refusal_is_logged_once_with_a_line_for_each_kind() {
    let (log, _guard) = Log::start();
    let world = World::with_nodes(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]).await;
    let waits = world.pod("waits", "neuron", 6).await;
    let holders = [world.pod("a", "neuron", 1).await, world.pod("b", "neuron", 1).await];
    assert_eq!(world.bind(&holders[0], "n1").await, "");
    assert_eq!(world.bind(&holders[1], "n2").await, "");
    for _ in 0..20 {
        assert!(!world.fits(&waits, "n1").await);
        assert_eq!(world.filter(&waits, &["n2", "n1"]).await["NodeNames"], serde_json::json!([]));
    }
    let more = world.pod("c", "neuron", 1).await;
    assert_eq!(world.bind(&more, "n1").await, "");
    assert!(!world.fits(&waits, "n1").await);
    let logged = r#"INFO filter{pod="default/waits"}: no node takes the pod nodes=1 reason="not enough free: Neuron devices asked 6, free 5 of 6""#;
    assert_eq!(log.lines("default/waits"), [logged], "what is free changed, the reason did not");

    let told = "nowhere: the Neuron scheduler knows no node of this name";
    assert_eq!(world.filter(&waits, &["n1", "n2", "nowhere"]).await["Error"], told);
    assert_eq!(
        log.lines("default/waits")[1..],
        [
            r#"INFO filter{pod="default/waits"}: it is not known whether a node takes the pod reason="nowhere: the Neuron scheduler knows no node of this name""#,
        ]
    );

    // Once it fitted, the same reason is news again.
    world.delete("b").await;
    eventually("the device is free", async || world.fits(&waits, "n2").await.then_some(())).await;
    assert!(!world.fits(&waits, "n1").await);
    let lines = log.lines("default/waits");
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[2].contains("free 4 of 6"), "{lines:#?}");
}

#[tokio::test]
async fn a_plugin_with_other_rules_is_told_of_once() {
    let (log, _guard) = Log::start();
    let world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let report = async |rules: &str, health: &str| {
        let report = serde_json::json!({
            "v": 1, "rules": rules, "instanceType": "inf2.xlarge", "lnc": 1,
            "devices": [{"id": 0, "links": [], "health": health}], "holders": [],
        });
        world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    };
    let ours = rules(Catalog::embedded(), Policy::Documented);
    report(&ours, "Healthy").await;
    report("0123456789abcdef", "Healthy").await;
    let told = async || (!log.lines("follows another policy or catalog").is_empty()).then_some(());
    eventually("a word about it", told).await;
    // Other news of the node is none about its rules.
    report("0123456789abcdef", "Unhealthy").await;
    let pod = world.pod("p", "neuron", 1).await;
    eventually("the node's last report", async || (!world.fits(&pod, "n1").await).then_some(())).await;
    let lines = log.lines("follows another policy or catalog");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let fields = format!("node=\"n1\" theirs=\"0123456789abcdef\" ours=\"{ours}\"");
    assert!(lines[0].contains(&fields), "{lines:?}");
}
