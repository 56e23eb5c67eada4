//! One TLS connection over a socket that never waits: plain bytes in, plain bytes out. Knows no frame.
//!
//! The certificate of the broker is not checked: whoever loads a broker has named its address, and
//! test certificates are signed by nobody.

use std::io::{BufRead, ErrorKind, Write};
use std::net::TcpStream;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme};

/// A session of TLS.
pub(crate) struct Tls {
    session: ClientConnection,
}

fn broken(error: Error) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, error)
}

impl Tls {
    /// Makes a session over a socket that still blocks.
    ///
    /// # Blocking
    /// Until both sides have agreed.
    pub(crate) fn over(socket: &mut TcpStream) -> std::io::Result<Self> {
        let name = ServerName::IpAddress(IpAddr::from(socket.peer_addr()?.ip()));
        let mut session = ClientConnection::new(config()?, name).map_err(broken)?;
        // What is queued is bounded by the requests in flight.
        session.set_buffer_limit(None);
        while session.is_handshaking() {
            session.complete_io(socket)?;
        }
        Ok(Self { session })
    }

    /// Takes plain bytes to be sent.
    pub(crate) fn queue(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.session.writer().write_all(bytes)
    }

    /// Writes what is queued; `WouldBlock` when the socket is full.
    pub(crate) fn send(&mut self, socket: &mut impl Write) -> std::io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }

    /// Takes bytes that came over the socket and gives the plain ones in them to `take`; false when the
    /// peer has ended the session.
    pub(crate) fn received<E: From<std::io::Error>>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        while !bytes.is_empty() {
            self.session.read_tls(&mut bytes)?;
            self.session.process_new_packets().map_err(broken)?;
            let mut reader = self.session.reader();
            loop {
                let len = match reader.fill_buf() {
                    Ok([]) => return Ok(false),
                    Ok(plain) => {
                        take(plain)?;
                        plain.len()
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error.into()),
                };
                reader.consume(len);
            }
        }
        Ok(true)
    }
}

/// What all connections of a run have in common.
fn config() -> std::io::Result<Arc<ClientConfig>> {
    static CONFIG: OnceLock<Result<Arc<ClientConfig>, Error>> = OnceLock::new();
    let made = CONFIG.get_or_init(|| {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(Unchecked(Arc::clone(&provider)));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Arc::new(config))
    });
    made.clone().map_err(broken)
}

/// Takes every certificate; the handshake must still be signed by its key.
#[derive(Debug)]
struct Unchecked(Arc<CryptoProvider>);

impl ServerCertVerifier for Unchecked {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
