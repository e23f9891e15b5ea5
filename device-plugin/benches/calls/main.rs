//! What kubelet's calls cost beside an empty gRPC call on the same socket:
//!
//! ```sh
//! cargo bench --profile simulation -p neuron-device-plugin --bench calls
//! ```
//!
//! A node of 16 devices with 8 cores each, on which 64 pods run with a core each, and one waits. Absolute figures are the machine's;
//! what counts is the ratios, taken round by round. Beside each question stands what it costs where a plugin answers it at once, which is
//! gRPC's part.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

mod changes;
mod constant;
mod node;
mod question;

use std::path::{Path, PathBuf};

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use tonic::transport::Channel;

use self::changes::Changes;
use self::node::Node;
use self::question::{Question, ask};

const ROUNDS: usize = 60;
/// Calls of each kind in a round.
const CALLS: usize = 40;

/// What is measured, each against the empty calls before and after it.
enum Kind {
    /// Of the plugin.
    Plugin(Question),
    /// Of the plugin; kubelet's checkpoint is another file before each.
    Replaced(Question),
    /// Of a plugin that knows its answer.
    Constant(Question),
    /// A list that changes on a stream that is open.
    Change,
}

const KINDS: [(&str, Kind); 8] = [
    ("Allocate", Kind::Plugin(Question::Allocate)),
    ("  answered at once", Kind::Constant(Question::Allocate)),
    ("GetPreferredAllocation", Kind::Plugin(Question::Preferred)),
    ("  answered at once", Kind::Constant(Question::Preferred)),
    ("a list change", Kind::Change),
    ("the first list of a stream", Kind::Plugin(Question::FirstList)),
    ("Allocate, checkpoint replaced", Kind::Replaced(Question::Allocate)),
    ("GetPreferredAllocation, checkpoint replaced", Kind::Replaced(Question::Preferred)),
];

/// The sockets that are asked, and kubelet's checkpoint.
struct Bench {
    plugin: DevicePluginClient<Channel>,
    constant: DevicePluginClient<Channel>,
    changes: Changes,
    checkpoint: PathBuf,
}

impl Bench {
    /// Of one kind, in what an empty call takes there; with the microseconds of that.
    async fn round(&mut self, kind: &Kind) -> (f64, f64) {
        let before = self.empty(kind).await;
        let mut spent = 0.0;
        for _ in 0..CALLS {
            spent += match kind {
                Kind::Plugin(question) => ask(&mut self.plugin, *question).await,
                Kind::Replaced(question) => {
                    replace(&self.checkpoint);
                    ask(&mut self.plugin, *question).await
                }
                Kind::Constant(question) => ask(&mut self.constant, *question).await,
                Kind::Change => self.changes.change().await,
            };
        }
        let after = self.empty(kind).await;
        (2.0 * spent / (before + after), before * 1e6 / CALLS as f64)
    }

    /// Seconds that empty calls take on the socket of that kind.
    async fn empty(&mut self, kind: &Kind) -> f64 {
        let client = match kind {
            Kind::Plugin(_) | Kind::Replaced(_) => &mut self.plugin,
            Kind::Constant(_) => &mut self.constant,
            Kind::Change => &mut self.changes.plugin,
        };
        let mut spent = 0.0;
        for _ in 0..CALLS {
            spent += ask(client, Question::Empty).await;
        }
        spent
    }

    /// Measures and prints every ratio: the median of all rounds, and where the middle half of them lies.
    async fn report(&mut self) {
        let mut ratios = KINDS.map(|_| Vec::new());
        let mut empty = Vec::new();
        // The first round warms up.
        for round in 0..=ROUNDS {
            for ((_, kind), ratios) in KINDS.iter().zip(&mut ratios) {
                let (ratio, microseconds) = self.round(kind).await;
                if round > 0 {
                    ratios.push(ratio);
                    empty.push(microseconds);
                }
            }
        }
        println!("an empty call: {:.0} us", quantile(&mut empty, 0.5));
        for ((name, _), ratios) in KINDS.iter().zip(&mut ratios) {
            let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(ratios, part));
            println!("{name:45} {middle:5.2} of an empty call ({low:.2} to {high:.2})");
        }
    }
}

/// Puts a file with the same content in the checkpoint's place, as kubelet does when it writes.
fn replace(checkpoint: &Path) {
    let beside = checkpoint.with_extension("new");
    std::fs::copy(checkpoint, &beside).expect("a copy of the checkpoint");
    std::fs::rename(beside, checkpoint).expect("the copy in the checkpoint's place");
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let dir = tempfile::tempdir().expect("a folder");
        let node = Node::new(dir.path()).await;
        let (plugin, mut lists) = node.plugin().await;
        let kept = tokio::spawn(async move { while let Ok(Some(_)) = lists.message().await {} });
        let constant = constant::serve(&dir.path().join("constant.sock")).await;
        let changes = Changes::new(&node).await;
        let checkpoint = node.checkpoint.clone();
        Bench { plugin, constant, changes, checkpoint }.report().await;
        kept.abort();
    });
}
