//! The name that a client's certificate gives its owner, for logs. Used after the handshake.
//!
//! webpki has the subject, as it stands in the certificate; what is in it is read here: `SEQUENCE OF SET OF SEQUENCE { OID, text }`,
//! in DER (X.501, X.690).

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// The attribute `commonName`: 2.5.4.3.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];

/// Longest name, in characters, that X.520 allows. More is left out.
const LONGEST: usize = 64;

const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// UTF8String, PrintableString, T61String and IA5String. Others are not seen in certificates of today.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x14, 0x16];

/// The common name of the certificate's subject; none if it has none that can be read.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    of_subject(certificate.subject())
}

/// The common name in the parts of a subject.
fn of_subject(mut parts: &[u8]) -> Option<String> {
    while !parts.is_empty() {
        let mut attributes = expect(SET, &mut parts)?;
        while !attributes.is_empty() {
            let mut attribute = expect(SEQUENCE, &mut attributes)?;
            if expect(OBJECT_IDENTIFIER, &mut attribute)? != COMMON_NAME {
                continue;
            }
            let (tag, text) = next(&mut attribute)?;
            let text = TEXTS.contains(&tag).then(|| String::from_utf8_lossy(text))?;
            return Some(text.chars().take(LONGEST).collect());
        }
    }
    None
}

/// The contents of the next element, which has to be of this kind.
fn expect<'a>(tag: u8, bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    next(bytes).filter(|(found, _)| *found == tag).map(|(_, contents)| contents)
}

/// The next element's tag and contents; `bytes` go on behind it.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (tag, length, rest) = match *bytes {
        [tag, length @ 0..=0x7f, rest @ ..] => (*tag, usize::from(*length), rest),
        [tag, 0x81, length, rest @ ..] => (*tag, usize::from(*length), rest),
        [tag, 0x82, high, low, rest @ ..] => (*tag, usize::from(u16::from_be_bytes([*high, *low])), rest),
        // Longer than any name.
        _ => return None,
    };
    let (contents, behind) = rest.split_at_checked(length)?;
    *bytes = behind;
    Some((tag, contents))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, DnValue, KeyPair};
    use rstest::rstest;

    use super::*;

    fn certificate(names: &[(DnType, DnValue)]) -> CertificateDer<'static> {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), name.clone());
        }
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    fn named(name: &str) -> (DnType, DnValue) {
        (DnType::CommonName, DnValue::Utf8String(name.to_owned()))
    }

    #[rstest]
    #[case::utf8(named("system:kube-scheduler"), "system:kube-scheduler")]
    #[case::not_ascii(named("Zeitgeber für Pods"), "Zeitgeber für Pods")]
    #[case::printable(
        (DnType::CommonName, DnValue::PrintableString("my-scheduler".try_into().unwrap())),
        "my-scheduler"
    )]
    #[case::long(named(&"x".repeat(200)), &"x".repeat(64))]
    fn the_name_is_found_among_others(#[case] name: (DnType, DnValue), #[case] wanted: &str) {
        let organization = (DnType::OrganizationName, DnValue::Utf8String("a".repeat(150)));
        assert_eq!(common_name(&certificate(&[organization, name])).as_deref(), Some(wanted));
    }

    #[test]
    fn a_certificate_without_one_has_none() {
        assert_eq!(common_name(&certificate(&[])), None);
        let organization = (DnType::OrganizationName, DnValue::Utf8String("schedulers".to_owned()));
        assert_eq!(common_name(&certificate(&[organization])), None);
    }

    #[test]
    fn nothing_that_is_damaged_is_more_than_unreadable() {
        let whole = certificate(&[named("my-scheduler")]);
        let subject = EndEntityCert::try_from(&whole).unwrap().subject().to_vec();
        assert_eq!(of_subject(&subject).as_deref(), Some("my-scheduler"));
        for end in 0..subject.len() {
            assert_eq!(of_subject(&subject[..end]), None, "cut off after {end}");
        }
        for place in 0..subject.len() {
            for byte in 0..=u8::MAX {
                let mut damaged = subject.clone();
                damaged[place] = byte;
                let _ = of_subject(&damaged);
            }
        }
        assert_eq!(common_name(&CertificateDer::from(vec![0x30; 10])), None);
    }
}
