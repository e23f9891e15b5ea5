//! The extender as a program, on the address in its first argument.

use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8888".to_owned());
    axum::serve(TcpListener::bind(&address).await?, other_extender::router()).await
}
