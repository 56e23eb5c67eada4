//! What protects a connection of replication: certificates and keys become the two ends of TLS 1.3, and what
//! rustls refuses becomes words for an operator. Both ends are ours, so that no older version is spoken.
//! Knows no socket and no file: whoever reads files gives their bytes.

use std::sync::Arc;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore,
    ServerConfig, ServerConnection,
};

/// Ciphertext that may wait for a socket, bytes: a turn of a slave, in four parts.
const UNSENT_BYTES_MAX: usize = 256 * 1024;

/// A certificate with its key, both PEM.
#[derive(Clone, Copy)]
pub struct Identity<'a> {
    /// The chain, leaf first.
    pub certificate: &'a [u8],
    /// The private key.
    pub key: &'a [u8],
    /// Its password, where it has one.
    pub password: Option<&'a str>,
}

/// How one end of a connection is protected.
#[derive(Clone, Default)]
pub struct Protection(Kind);

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Plain,
    Serving {
        config: Arc<ServerConfig>,
        takes_plain: bool,
    },
    Asking(Arc<ClientConfig>),
}

/// What a connection that has just been made is to become.
pub(crate) enum Begin {
    /// As it is.
    Plain,
    /// What its first byte decides.
    FirstByte {
        config: Arc<ServerConfig>,
        takes_plain: bool,
    },
    /// TLS at once.
    Tls(Box<Connection>),
}

impl Protection {
    /// None.
    #[must_use]
    pub fn plain() -> Self {
        Self::default()
    }

    /// Of a master: the first byte of a connection decides whether it speaks TLS. `trusted` are the
    /// authorities, PEM, one of which must have signed the certificate that a slave shows; `None` asks for no
    /// certificate. With `takes_plain` a connection without TLS is served too.
    ///
    /// # Errors
    /// Which of the arguments cannot be used, and why.
    pub fn serving(
        own: Identity<'_>,
        trusted: Option<&[u8]>,
        takes_plain: bool,
    ) -> Result<Self, String> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?;
        let builder = match trusted {
            None => builder.with_no_client_auth(),
            Some(trusted) => {
                let roots = Arc::new(roots_of(trusted)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| error.to_string())?)
            }
        };
        let (chain, key) = parsed(own)?;
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| format!("the certificate cannot be used with the key: {error}"))?;
        // A slave that comes again shows its certificate again.
        config.send_tls13_tickets = 0;
        Ok(Self(Kind::Serving {
            config: Arc::new(config),
            takes_plain,
        }))
    }

    /// Of a slave: the master's certificate must come from one of the authorities in `trusted`, PEM, and name
    /// the host that was dialled. `own` is what the slave shows where it is asked.
    ///
    /// # Errors
    /// Which of the arguments cannot be used, and why.
    pub fn asking(trusted: &[u8], own: Option<Identity<'_>>) -> Result<Self, String> {
        let provider = provider();
        let roots = Arc::new(roots_of(trusted)?);
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| error.to_string())?
            .with_webpki_verifier(verifier.build().map_err(|error| error.to_string())?);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let (chain, key) = parsed(own)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| {
                    format!("the certificate cannot be used with the key: {error}")
                })?
            }
        };
        Ok(Self(Kind::Asking(Arc::new(config))))
    }

    /// What a connection with `address` (host and port) begins as.
    ///
    /// # Errors
    /// The address has no host that a certificate could name.
    pub(crate) fn begin(&self, address: &str) -> Result<Begin, String> {
        match &self.0 {
            Kind::Plain => Ok(Begin::Plain),
            Kind::Serving {
                config,
                takes_plain,
            } => Ok(Begin::FirstByte {
                config: Arc::clone(config),
                takes_plain: *takes_plain,
            }),
            Kind::Asking(config) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let name = ServerName::try_from(host.to_owned());
                let name = name.map_err(|_| format!("{address}: no certificate names {host}"))?;
                let made = ClientConnection::new(Arc::clone(config), name);
                let made = made.map_err(|error| error.to_string())?;
                Ok(Begin::Tls(bounded(made.into())))
            }
        }
    }
}

/// The end of a master for a connection that begins with TLS.
pub(crate) fn served(config: &Arc<ServerConfig>) -> Result<Box<Connection>, rustls::Error> {
    ServerConnection::new(Arc::clone(config)).map(|made| bounded(made.into()))
}

fn bounded(mut connection: Connection) -> Box<Connection> {
    connection.set_buffer_limit(Some(UNSENT_BYTES_MAX));
    Box::new(connection)
}

/// What a fault of TLS means to an operator.
pub(crate) fn words_of(error: &rustls::Error) -> String {
    let what = match error {
        rustls::Error::InvalidCertificate(why) => return certificate_words(why),
        rustls::Error::NoCertificatesPresented => "the other end shows no certificate",
        rustls::Error::AlertReceived(alert) => return alert_words(*alert),
        rustls::Error::InvalidMessage(_) | rustls::Error::InappropriateMessage { .. } => {
            "the other end does not speak TLS as we do"
        }
        other => return format!("TLS failed: {other}"),
    };
    what.to_owned()
}

fn certificate_words(why: &CertificateError) -> String {
    let what = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet"
        }
        CertificateError::UnknownIssuer => "it comes from no authority that is trusted here",
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it does not name the host that was dialled"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "it is not meant for this end of a connection (extendedKeyUsage)"
        }
        other => return format!("the certificate of the other end is refused: {other}"),
    };
    format!("the certificate of the other end is refused: {what}")
}

fn alert_words(alert: AlertDescription) -> String {
    let what = match alert {
        AlertDescription::CertificateRequired => "it demands a certificate, and we showed none",
        AlertDescription::UnknownCA => "our certificate comes from no authority that it trusts",
        AlertDescription::CertificateExpired => "our certificate has expired",
        AlertDescription::ProtocolVersion => "it speaks no TLS 1.3",
        other => return format!("the other end refuses us: {other:?}"),
    };
    format!("the other end refuses us: {what}")
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn roots_of(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for found in CertificateDer::pem_slice_iter(pem) {
        let found = found.map_err(|error| format!("the authorities cannot be read: {error}"))?;
        roots
            .add(found)
            .map_err(|error| format!("an authority cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("the file of authorities holds no certificate in PEM".to_owned());
    }
    Ok(roots)
}

fn parsed(
    own: Identity<'_>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(own.certificate).collect();
    let chain = chain.map_err(|error| format!("the certificate cannot be read: {error}"))?;
    if chain.is_empty() {
        return Err("the file of the certificate holds none in PEM".to_owned());
    }
    Ok((chain, key_of(own)?))
}

/// How a private key in PEM that has a password begins and ends (PKCS #8, RFC 5958).
const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
/// What is in a key that older versions of OpenSSL have given a password.
const OLD_ENCRYPTED: &str = "Proc-Type: 4,ENCRYPTED";

fn key_of(own: Identity<'_>) -> Result<PrivateKeyDer<'static>, String> {
    let text = String::from_utf8_lossy(own.key);
    if text.contains(OLD_ENCRYPTED) {
        return Err(
            "the key has a password in the old form of OpenSSL: `openssl pkcs8 -topk8 -v2 \
             aes-256-cbc -in OLD -out NEW` writes one that can be read"
                .to_owned(),
        );
    }
    if let Some(encrypted) = encrypted_part(&text) {
        let Some(password) = own.password else {
            return Err("the key has a password, and none is set".to_owned());
        };
        return decrypted(encrypted, password);
    }
    PrivateKeyDer::from_pem_slice(own.key)
        .map_err(|_| "the key cannot be read: it is no private key in PEM".to_owned())
}

/// The part of a file that is a private key with a password.
fn encrypted_part(text: &str) -> Option<&str> {
    let from = text.find(ENCRYPTED_BEGIN)?;
    let rest = text.get(from..)?;
    let len = rest.find(ENCRYPTED_END)? + ENCRYPTED_END.len();
    rest.get(..len)
}

fn decrypted(pem: &str, password: &str) -> Result<PrivateKeyDer<'static>, String> {
    let unreadable = |why: String| format!("the key with a password cannot be read: {why}");
    let (_label, document) =
        SecretDocument::from_pem(pem).map_err(|error| unreadable(error.to_string()))?;
    let info = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes())
        .map_err(|error| unreadable(error.to_string()))?;
    let key = info.decrypt(password).map_err(|error| {
        format!("the key cannot be decrypted: {error}; is the password the right one?")
    })?;
    PrivateKeyDer::try_from(key.as_bytes().to_vec())
        .map_err(|_| "what the key's password protects is no private key".to_owned())
}
