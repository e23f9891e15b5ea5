//! The service itself: tokens asked for and checked, pages given. HTTP status, headers and bodies as EC2's.

use std::future::Future;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, SERVER};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};

use crate::imds::Instance;
use crate::imds::pages::Pages;
use crate::imds::tokens::{LIFETIMES, Tokens};

const TOKEN: &str = "x-aws-ec2-metadata-token";
const TOKEN_LIFETIME: &str = "x-aws-ec2-metadata-token-ttl-seconds";
const FORWARDED: &str = "x-forwarded-for";

/// One instance's metadata service.
#[derive(Debug)]
pub struct Imds {
    pages: Pages,
    tokens: Mutex<Tokens>,
    without_token: bool,
}

impl Imds {
    /// The service of this instance. `without_token`: IMDSv1 is allowed too, so a request without a token is answered (a wrong
    /// token never is).
    pub fn new(instance: &Instance, without_token: bool) -> Self {
        Self { pages: Pages::of(instance), tokens: Mutex::default(), without_token }
    }

    /// Answers on `listener` until `shutdown` is done.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn serve(
        self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let router = Router::new().fallback(answer).with_state(Arc::new(self));
        axum::serve(listener, router).with_graceful_shutdown(shutdown).await
    }

    fn token(&self, method: &Method, headers: &HeaderMap) -> Response {
        if method != Method::PUT {
            return refusal(StatusCode::METHOD_NOT_ALLOWED);
        }
        // A proxy that passes such requests on would hand the instance's metadata to strangers.
        if headers.contains_key(FORWARDED) {
            return refusal(StatusCode::FORBIDDEN);
        }
        let lifetime = headers.get(TOKEN_LIFETIME).and_then(|value| value.to_str().ok()?.parse().ok());
        let Some(lifetime) = lifetime.filter(|seconds| LIFETIMES.contains(seconds)) else {
            return refusal(StatusCode::BAD_REQUEST);
        };
        let token = self.tokens.lock().unwrap_or_else(PoisonError::into_inner).give(lifetime);
        ([(TOKEN_LIFETIME, lifetime.to_string())], page(token)).into_response()
    }

    fn may_read(&self, headers: &HeaderMap) -> bool {
        match headers.get(TOKEN) {
            None => self.without_token,
            Some(token) => {
                let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
                token.to_str().is_ok_and(|token| tokens.knows(token))
            }
        }
    }
}

/// A socket for [`Imds::serve`]. `hop_limit`, 1 to 64, is the TTL of its packets: what is more routers away gets none. The real
/// service sets it only on the answer with the token.
///
/// # Errors
/// The address is taken or not this host's.
pub fn listen(address: SocketAddr, hop_limit: u8) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    rustix::net::sockopt::set_ip_ttl(&listener, u32::from(hop_limit))?;
    Ok(listener)
}

async fn answer(State(imds): State<Arc<Imds>>, method: Method, uri: Uri, headers: HeaderMap) -> Response {
    if uri.path().trim_end_matches('/') == "/latest/api/token" {
        return imds.token(&method, &headers);
    }
    if method != Method::GET && method != Method::HEAD {
        return refusal(StatusCode::METHOD_NOT_ALLOWED);
    }
    if !imds.may_read(&headers) {
        return refusal(StatusCode::UNAUTHORIZED);
    }
    imds.pages.at(uri.path()).map_or_else(|| refusal(StatusCode::NOT_FOUND), page)
}

fn page(text: String) -> Response {
    ([(CONTENT_TYPE, "text/plain"), (SERVER, "EC2ws")], text).into_response()
}

fn refusal(status: StatusCode) -> Response {
    let title = format!("{} - {}", status.as_u16(), status.canonical_reason().unwrap_or_default());
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\
         \t\"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n<html xmlns=\"http://www.w3.org/1999/xhtml\" \
         xml:lang=\"en\" lang=\"en\">\n <head>\n  <title>{title}</title>\n </head>\n <body>\n  <h1>{title}</h1>\n </body>\n\
         </html>\n"
    );
    (status, [(CONTENT_TYPE, "text/html"), (SERVER, "EC2ws")], body).into_response()
}
