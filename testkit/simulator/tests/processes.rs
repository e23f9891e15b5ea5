//! The life of a process: killed, frozen, ended, without power, by a clock of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "what libraries ask is simulated too")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use runtime::System;
use runtime::system::{Address, Connection};
use simulator::executor::Order;
use simulator::{Host, Options, Process, Simulation, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

fn simulate<T: Send + 'static>(work: impl AsyncFnOnce(Simulation) -> T + Send + 'static) -> T {
    run(Options::new(1), move |simulation| async move { work(simulation).await }).result.unwrap()
}

/// Counts up each second, also from a destructor.
fn counting(process: &Process) -> Arc<AtomicU64> {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    process.system().spawn(async move {
        loop {
            counted.fetch_add(1, Ordering::Relaxed);
            sleep(SECOND).await;
        }
    });
    count
}

async fn connected(server: &Process, client: &Process) -> (Connection, Connection) {
    let address = Address::Tcp(([127, 0, 0, 1], 0).into());
    let mut listener = server.system().listen(&address).unwrap();
    let near = client.system().connect(&listener.address()).await.unwrap();
    (near, listener.accept().await.unwrap())
}

#[test]
fn nothing_of_a_killed_process_is_polled_again_and_its_destructors_change_nothing() {
    simulate(async |simulation| {
        struct Ghost(System);
        impl Drop for Ghost {
            fn drop(&mut self) {
                let system = self.0.clone();
                self.0.spawn(async move { system.replace(Path::new("/ghost"), Vec::new()).await });
            }
        }
        let host = simulation.host("h");
        let process = host.process("p");
        host.files().make_folder(Path::new("/")).unwrap();
        let (count, ghost) = (counting(&process), Ghost(process.system()));
        process.system().spawn(async move {
            let _ghost = ghost;
            std::future::pending::<()>().await;
        });
        sleep(SECOND * 5 / 2).await;
        process.kill();
        process.ended().await;
        sleep(SECOND * 10).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
        assert!(process.system().replace(Path::new("/file"), Vec::new()).await.is_err());
        assert_eq!(host.files().names(Path::new("/")), [""; 0]);
        assert_eq!(process.system().spawn(async {}).await, Err(runtime::system::TaskEnded::Aborted));
    });
}

#[test]
fn a_process_is_killed_before_the_poll_that_was_chosen() {
    let kills = vec![("p".to_owned(), 3), ("p".to_owned(), 5), ("other".to_owned(), 1)];
    let options = Options { kills, order: Order::ByAge, ..Options::new(1) };
    let finished = run(options, async |simulation: Simulation| {
        let host = simulation.host("h");
        let mut counts = Vec::new();
        for _ in 0..3 {
            let process = host.process("p");
            let count = counting(&process);
            let _alive = timeout(SECOND * 10, process.ended()).await;
            counts.push((count.load(Ordering::Relaxed), process.has_ended()));
        }
        counts
    });
    let activity = finished.activity["p"];
    assert_eq!((activity.starts, activity.kills, activity.kills_by_poll), (3, 2, 2));
    assert_eq!(finished.result.unwrap(), [(2, true), (1, true), (10, false)]);
}

#[test]
fn a_frozen_process_goes_on_where_it_was() {
    simulate(async |simulation| {
        let process = simulation.host("h").process("p");
        let count = counting(&process);
        sleep(SECOND / 2).await;
        process.freeze();
        sleep(SECOND * 100).await;
        assert_eq!(count.load(Ordering::Relaxed), 1);
        process.thaw();
        sleep(SECOND * 3 / 2).await;
        assert_eq!(count.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn the_other_side_is_told_how_a_process_ended() {
    simulate(async |simulation| {
        let hosts: [Host; 2] = ["a", "b"].map(|name| simulation.host(name));
        for (end, told) in
            [(Process::kill as fn(&Process), "Err(Kind(ConnectionReset))"), (Process::exit, "Ok(0)")]
        {
            let (server, client) = (hosts[0].process("server"), hosts[0].process("client"));
            let (mut near, mut far) = connected(&server, &client).await;
            far.write_all(b"first").await.unwrap();
            end(&server);
            let mut first = [0; 5];
            near.read_exact(&mut first).await.unwrap();
            assert_eq!(format!("{:?}", near.read(&mut [0]).await), told);
            assert!(near.write(b"x").await.is_err());
        }
    });
}

#[test]
fn a_host_without_power_tells_nobody_and_keeps_its_files() {
    simulate(async |simulation| {
        let (a, b) = (simulation.host("a"), simulation.host("b"));
        let (server, client) = (a.process("server"), b.process("client"));
        let mut listener = server.system().listen(&Address::Tcp((a.ip(), 80).into())).unwrap();
        let mut near = client.system().connect(&listener.address()).await.unwrap();
        let _far = listener.accept().await.unwrap();
        a.files().write(Path::new("/kept"), "").unwrap();
        a.lose_power();
        assert!(server.has_ended() && !client.has_ended());
        assert!(timeout(SECOND * 1000, near.read(&mut [0])).await.is_err(), "it is half open");
        near.write_all(b"into the void").await.unwrap();
        assert!(a.files().exists(Path::new("/kept")));
        assert!(client.system().connect(&listener.address()).await.is_err());
    });
}

#[test]
fn a_wall_clock_is_the_process_own() {
    simulate(async |simulation| {
        let host = simulation.host("h");
        let (ahead, right) = (host.process("ahead"), host.process("right"));
        ahead.set_skew(5_000_000_000);
        let of_libc = ahead.system().spawn(async { SystemTime::now() }).await.unwrap();
        assert_eq!(ahead.system().now().duration_since(right.system().now()).unwrap(), SECOND * 5);
        assert_eq!(of_libc, ahead.system().now());
    });
}
