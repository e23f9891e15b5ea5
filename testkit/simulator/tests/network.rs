//! Connections between simulated hosts over links that are slow, lossy or cut.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use runtime::system::{Address, Connection};
use simulator::network::LinkQuality;
use simulator::{Host, Options, Simulation, run};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};

struct World {
    simulation: Simulation,
    client: Host,
    server: Host,
    near: Connection,
    far: Connection,
}

fn simulate(quality: LinkQuality, work: impl AsyncFnOnce(World) + Send + 'static) {
    let finished = run(Options::new(1), move |simulation| async move {
        simulation.set_links(quality);
        let (client, server) = (simulation.host("client"), simulation.host("server"));
        let (near_system, far_system) =
            (client.process("client").system(), server.process("server").system());
        let mut listener = far_system.listen(&Address::Tcp(([0, 0, 0, 0], 80).into())).unwrap();
        assert_eq!(listener.address(), Address::Tcp((server.ip(), 80).into()));
        let near = near_system.connect(&listener.address()).await.unwrap();
        let far = listener.accept().await.unwrap();
        work(World { simulation, client, server, near, far }).await;
    });
    assert_eq!(finished.panics, []);
    finished.result.unwrap();
}

async fn takes(from: &mut Connection, to: &mut Connection) -> Duration {
    let began = Instant::now();
    from.write_all(b"x").await.unwrap();
    to.read_exact(&mut [0]).await.unwrap();
    began.elapsed()
}

#[test]
fn a_slow_link_takes_its_time_and_keeps_the_order() {
    let quality = LinkQuality { milliseconds: (10, 50), loss: 0.0 };
    simulate(quality, async |mut world| {
        let time = takes(&mut world.near, &mut world.far).await;
        assert!((10..=50).contains(&time.as_millis()), "{time:?}");
        for number in 0..100 {
            world.near.write_all(&[number]).await.unwrap();
        }
        let mut all = [0; 100];
        world.far.read_exact(&mut all).await.unwrap();
        assert!(all.is_sorted());
    });
}

#[test]
fn on_a_host_messages_take_time_only_where_it_is_busy() {
    simulate(LinkQuality { milliseconds: (10, 50), loss: 0.0 }, async |world| {
        let (server, client) = (world.server.process("unix").system(), world.server.process("asks").system());
        world.server.files().make_folder(Path::new("/run")).unwrap();
        let socket = Address::Unix("/run/server.sock".into());
        let mut listener = server.listen(&socket).unwrap();
        let mut near = client.connect(&socket).await.unwrap();
        let mut far = listener.accept().await.unwrap();
        assert_eq!(takes(&mut near, &mut far).await, Duration::ZERO, "it goes over no link");
        world.simulation.set_within_host(LinkQuality { milliseconds: (3, 5), loss: 0.0 });
        let time = takes(&mut far, &mut near).await;
        assert!((3..=5).contains(&time.as_millis()), "{time:?}");
    });
}

#[test]
fn what_is_lost_is_sent_again() {
    let quality = LinkQuality { milliseconds: (1, 1), loss: 0.5 };
    simulate(quality, async |mut world| {
        let mut times = Vec::new();
        for _ in 0..50 {
            times.push(takes(&mut world.near, &mut world.far).await.as_millis());
        }
        assert!(times.contains(&1) && times.contains(&201) && times.contains(&601), "{times:?}");
    });
}

#[test]
fn over_a_cut_link_nothing_comes_until_it_is_mended() {
    simulate(LinkQuality::default(), async |mut world| {
        let there = world.simulation.link(&world.client, &world.server);
        there.set_cut(true);
        world.near.write_all(b"a").await.unwrap();
        assert!(timeout(Duration::from_secs(500), world.far.read(&mut [0])).await.is_err());
        assert_eq!(takes(&mut world.far, &mut world.near).await, Duration::ZERO, "the way back is not cut");
        there.set_cut(false);
        world.near.write_all(b"b").await.unwrap();
        let mut both = [0; 2];
        world.far.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"ab");
    });
}

#[test]
fn a_reset_ends_the_connections_between_two_hosts_at_once() {
    simulate(LinkQuality::default(), async |mut world| {
        world.simulation.link(&world.client, &world.server).set_cut(true);
        world.near.write_all(b"lost").await.unwrap();
        let third = world.simulation.host("third");
        world.simulation.reset_connections(&third, &world.server);
        assert!(timeout(Duration::from_secs(1), world.far.read(&mut [0])).await.is_err(), "it is another's");
        world.simulation.reset_connections(&world.server, &world.client);
        assert_eq!(world.far.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(world.near.read(&mut [0]).await.unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(world.near.write_all(b"x").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn a_connection_over_a_cut_link_is_made_when_it_is_mended() {
    simulate(LinkQuality::default(), async |world| {
        let system = world.client.process("client").system();
        let (there, address) = (
            world.simulation.link(&world.client, &world.server),
            Address::Tcp((world.server.ip(), 80).into()),
        );
        there.set_cut(true);
        assert!(timeout(Duration::from_secs(60), system.connect(&address)).await.is_err());
        let mend = async {
            sleep(Duration::from_secs(5)).await;
            there.set_cut(false);
        };
        let (made, ()) = tokio::join!(system.connect(&address), mend);
        made.unwrap();
        let nobody = system.connect(&Address::Tcp((world.server.ip(), 81).into())).await;
        assert_eq!(nobody.err().unwrap().kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn who_sends_more_than_is_read_waits() {
    simulate(LinkQuality::default(), async |mut world| {
        let much = vec![0; 1 << 20];
        assert!(timeout(Duration::from_secs(1), world.near.write_all(&much)).await.is_err());
        let sending = async {
            world.near.write_all(&much).await.unwrap();
            world.near.shutdown().await.unwrap();
        };
        let mut all = Vec::new();
        let (read, ()) = tokio::join!(world.far.read_to_end(&mut all), sending);
        assert!((much.len()..2 * much.len()).contains(&read.unwrap()));
    });
}
