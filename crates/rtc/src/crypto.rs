//! The cryptography of the protocol stack.
//!
//! The stack brings a choice of its own, but each of them draws in a second C library. This one has DTLS and
//! ciphers in Rust, and makes certificates with what makes those of the HTTP server.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use aes::cipher::{BlockEncrypt, KeyInit, KeyIvInit, StreamCipher};
use aes::{Aes128, Aes256};
use aes_gcm::aead::AeadInPlace;
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use str0m::crypto::dtls::{
    DtlsCert, DtlsImplError, DtlsInstance, DtlsOutput, DtlsProvider, DtlsVersion, ProtocolVersion,
};
use str0m::crypto::{
    AeadAes128GcmCipher, AeadAes256GcmCipher, Aes128CmSha1_80Cipher, CryptoError, CryptoProvider,
    Sha1HmacProvider, Sha256Provider, SrtpProvider, SupportedAeadAes128Gcm, SupportedAeadAes256Gcm,
    SupportedAes128CmSha1_80,
};

const BLOCK: usize = 16;
const TAG: usize = 16;

/// Everything that the stack needs.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        srtp_provider: &Provider,
        sha1_hmac_provider: &Provider,
        sha256_provider: &Provider,
        dtls_provider: &Provider,
    }
}

#[derive(Debug)]
struct Provider;

fn other(what: &str) -> CryptoError {
    CryptoError::Other(what.to_owned())
}

impl Sha1HmacProvider for Provider {
    fn sha1_hmac(&self, key: &[u8], payloads: &[&[u8]]) -> [u8; 20] {
        // A key of any length will do: there is no other way in which this could fail.
        let Ok(mut mac) = <Hmac<Sha1> as Mac>::new_from_slice(key) else { return [0; 20] };
        payloads.iter().for_each(|payload| mac.update(payload));
        mac.finalize().into_bytes().into()
    }
}

impl Sha256Provider for Provider {
    fn sha256(&self, data: &[u8]) -> [u8; 32] {
        Sha256::digest(data).into()
    }
}

impl SrtpProvider for Provider {
    fn aes_128_cm_sha1_80(&self) -> &'static dyn SupportedAes128CmSha1_80 {
        &Self
    }

    fn aead_aes_128_gcm(&self) -> &'static dyn SupportedAeadAes128Gcm {
        &Self
    }

    fn aead_aes_256_gcm(&self) -> &'static dyn SupportedAeadAes256Gcm {
        &Self
    }

    fn srtp_aes_128_ecb_round(&self, key: &[u8], input: &[u8], output: &mut [u8]) {
        encrypt_block::<Aes128>(key, input, output);
    }

    fn srtp_aes_256_ecb_round(&self, key: &[u8], input: &[u8], output: &mut [u8]) {
        encrypt_block::<Aes256>(key, input, output);
    }
}

/// One block of the key derivation. The stack has room for padding behind it and reads only the block.
fn encrypt_block<C: KeyInit + BlockEncrypt>(key: &[u8], input: &[u8], output: &mut [u8]) {
    if let (Ok(cipher), Some(input), Some(output)) =
        (C::new_from_slice(key), input.get(..C::block_size()), output.get_mut(..C::block_size()))
    {
        cipher.encrypt_block_b2b(input.into(), output.into());
    }
}

impl SupportedAes128CmSha1_80 for Provider {
    fn create_cipher(&self, key: [u8; BLOCK], _encrypt: bool) -> Box<dyn Aes128CmSha1_80Cipher> {
        Box::new(CounterMode(key))
    }
}

impl SupportedAeadAes128Gcm for Provider {
    fn create_cipher(&self, key: [u8; 16], _encrypt: bool) -> Box<dyn AeadAes128GcmCipher> {
        Box::new(Gcm(Aes128Gcm::new(&key.into())))
    }
}

impl SupportedAeadAes256Gcm for Provider {
    fn create_cipher(&self, key: [u8; 32], _encrypt: bool) -> Box<dyn AeadAes256GcmCipher> {
        Box::new(Gcm(Aes256Gcm::new(&key.into())))
    }
}

/// AES-128 in counter mode, where both directions are the same.
struct CounterMode([u8; BLOCK]);

impl fmt::Debug for CounterMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CounterMode")
    }
}

impl CounterMode {
    fn apply(&self, iv: &[u8; BLOCK], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        let output = output.get_mut(..input.len()).ok_or_else(|| other("no room for what is ciphered"))?;
        ctr::Ctr128BE::<Aes128>::new(&self.0.into(), iv.into())
            .apply_keystream_b2b(input, output)
            .map_err(|_| other("the lengths differ"))
    }
}

impl Aes128CmSha1_80Cipher for CounterMode {
    fn encrypt(&mut self, iv: &[u8; BLOCK], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        self.apply(iv, input, output)
    }

    fn decrypt(&mut self, iv: &[u8; BLOCK], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        self.apply(iv, input, output)
    }
}

/// AES-GCM with keys of either length.
struct Gcm<C>(C);

impl<C> fmt::Debug for Gcm<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gcm")
    }
}

impl<C: AeadInPlace> Gcm<C> {
    fn seal(&self, iv: &[u8; 12], aad: &[u8], input: &[u8], output: &mut [u8]) -> Result<(), CryptoError> {
        let output =
            output.get_mut(..input.len() + TAG).ok_or_else(|| other("no room for what is sealed"))?;
        let (text, tag) = output.split_at_mut(input.len());
        text.copy_from_slice(input);
        let made = self.0.encrypt_in_place_detached(iv.as_slice().into(), aad, text);
        tag.copy_from_slice(&made.map_err(|_| other("too long to be sealed"))?);
        Ok(())
    }

    fn open(
        &self,
        iv: &[u8; 12],
        aads: &[&[u8]],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, CryptoError> {
        let (sealed, tag) = input.split_last_chunk::<TAG>().ok_or_else(|| other("too short to be sealed"))?;
        let text = output.get_mut(..sealed.len()).ok_or_else(|| other("no room for what is opened"))?;
        text.copy_from_slice(sealed);
        let aad = aads.concat();
        self.0
            .decrypt_in_place_detached(iv.as_slice().into(), &aad, text, tag.as_slice().into())
            .map_err(|_| other("not authentic"))?;
        Ok(text.len())
    }
}

impl AeadAes128GcmCipher for Gcm<Aes128Gcm> {
    fn encrypt(
        &mut self,
        iv: &[u8; 12],
        aad: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        self.seal(iv, aad, input, output)
    }

    fn decrypt(
        &mut self,
        iv: &[u8; 12],
        aads: &[&[u8]],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, CryptoError> {
        self.open(iv, aads, input, output)
    }
}

impl AeadAes256GcmCipher for Gcm<Aes256Gcm> {
    fn encrypt(
        &mut self,
        iv: &[u8; 12],
        aad: &[u8],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<(), CryptoError> {
        self.seal(iv, aad, input, output)
    }

    fn decrypt(
        &mut self,
        iv: &[u8; 12],
        aads: &[&[u8]],
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, CryptoError> {
        self.open(iv, aads, input, output)
    }
}

impl DtlsProvider for Provider {
    fn generate_certificate(&self) -> Option<DtlsCert> {
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).ok()?;
        let certificate = rcgen::CertificateParams::default().self_signed(&key).ok()?;
        Some(DtlsCert { certificate: certificate.der().to_vec(), private_key: key.serialize_der() })
    }

    fn new_dtls(
        &self,
        certificate: &DtlsCert,
        now: Instant,
        _version: DtlsVersion,
        mtu: Option<usize>,
    ) -> Result<Box<dyn DtlsInstance>, CryptoError> {
        // Cookies prove that an address is real, and connectivity checks have done that before.
        let mut config = dimpl::Config::builder().use_server_cookie(false);
        if let Some(mtu) = mtu {
            config = config.mtu(mtu);
        }
        // Every browser speaks 1.2, which is what the stack asks for unless it is told otherwise.
        let dtls = dimpl::Dtls::new_12(Arc::new(config.build()?), certificate.clone(), now);
        Ok(Box::new(Dtls(dtls)))
    }
}

struct Dtls(dimpl::Dtls);

impl fmt::Debug for Dtls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dtls")
    }
}

impl DtlsInstance for Dtls {
    fn set_active(&mut self, active: bool) {
        self.0.set_active(active);
    }

    fn handle_packet(&mut self, packet: &[u8]) -> Result<(), DtlsImplError> {
        self.0.handle_packet(packet)
    }

    fn poll_output<'a>(&mut self, buffer: &'a mut [u8]) -> DtlsOutput<'a> {
        self.0.poll_output(buffer)
    }

    fn handle_timeout(&mut self, now: Instant) -> Result<(), DtlsImplError> {
        self.0.handle_timeout(now)
    }

    fn send_application_data(&mut self, data: &[u8]) -> Result<(), DtlsImplError> {
        self.0.send_application_data(data)
    }

    fn is_active(&self) -> bool {
        self.0.is_active()
    }

    fn protocol_version(&self) -> Option<ProtocolVersion> {
        self.0.protocol_version()
    }

    fn is_closing(&self) -> bool {
        self.0.is_closing()
    }

    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn close(&mut self) -> Result<(), DtlsImplError> {
        self.0.close()
    }
}
