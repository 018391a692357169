//! Container runtimes: which of them give a container the devices that the kubelet names by the Container Device Interface.
//!
//! One that does not ignores them without a word. Versions are those in which the field of the kubelet's request came to be
//! read: containerd 1.7 (switched off until 2.0), CRI-O 1.23. Whether containerd 1.7 was told to read it no node says: it counts
//! as one that does not, unless somebody vouches for it.

use super::verdict::NodeReason;

/// First two numbers of a version.
type Numbers = (u32, u32);

/// The first version that knows CDI where it was told to, and the first that does by itself.
type Since = (Numbers, Numbers);

/// Runtimes that are known, each with its versions that know CDI; none where no version does.
const RUNTIMES: [(&str, &str, Option<Since>); 3] = [
    ("containerd", "containerd", Some(((1, 7), (2, 0)))),
    ("cri-o", "CRI-O", Some(((1, 23), (1, 23)))),
    // Docker behind cri-dockerd, which passes none on.
    ("docker", "Docker", None),
];

/// First two numbers of a version such as `v1.34.2+k3s1` or `1.6.20~ds1`.
pub(super) fn version(text: &str) -> Option<Numbers> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let (major, rest) = text.split_once('.')?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    Some((major.parse().ok()?, rest.get(..digits)?.parse().ok()?))
}

/// Name and version of `containerd://1.7.2`.
fn parts(text: &str) -> Option<(&str, &str)> {
    text.split_once("://").filter(|(name, _)| !name.is_empty())
}

/// Whether a runtime, as the node names it, is known to know CDI, or is among those that are `vouched` for.
///
/// # Errors
/// The reason and its words.
pub(super) fn judge(text: &str, vouched: &[String]) -> Result<(), (NodeReason, String)> {
    let unknown = |words: String| Err((NodeReason::RuntimeUnknown, words));
    let Some((name, number)) = parts(text) else {
        return unknown(format!(
            "its container runtime is {text:?}, which is none: asked again until the kubelet has said it"
        ));
    };
    let is_vouched = vouched.iter().any(|known| known == name);
    let Some((_, title, first)) = RUNTIMES.iter().find(|(known, ..)| *known == name) else {
        if is_vouched {
            return Ok(());
        }
        return unknown(format!(
            "whether the container runtime {name} {number} gives pods their limits, by CDI, is not known: where it does, \
             say so by `--runtime-with-cdi {name}`"
        ));
    };
    let without = |words: String| Err((NodeReason::RuntimeWithoutCdi, words));
    let Some((told, by_itself)) = first else {
        if is_vouched {
            return Ok(());
        }
        return without(format!(
            "{title} {number} does not give containers devices by CDI: a pod would run without limits. Use containerd or \
             CRI-O, or `--runtime-with-cdi {name}` where yours does"
        ));
    };
    match version(number) {
        // No setting makes it read them.
        Some(found) if found < *told => without(format!(
            "{title} {number} ignores CDI devices: a pod would run without limits. Install {title} {}.{} or newer",
            told.0, told.1
        )),
        _ if is_vouched => Ok(()),
        Some(found) if found < *by_itself => without(format!(
            "{title} {number} ignores CDI devices unless it is told to read them: a pod would run without limits. Install {title} \
             {}.{}, or set `enable_cdi = true` in its configuration and say so by `--runtime-with-cdi {name}`",
            by_itself.0, by_itself.1
        )),
        Some(_) => Ok(()),
        None => unknown(format!(
            "the version {number:?} of {title} is none: `--runtime-with-cdi {name}` lets it be"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_that_ignore_cdi_are_refused_with_the_fix() {
        let without = Some(NodeReason::RuntimeWithoutCdi);
        let unknown = Some(NodeReason::RuntimeUnknown);
        for (text, reason, fix) in [
            ("containerd://2.1.3", None, ""),
            ("containerd://2.0.0-rc.1", None, ""),
            ("containerd://1.7.0", without, "enable_cdi = true"),
            ("containerd://1.7.27-k3s1", without, "--runtime-with-cdi containerd"),
            ("containerd://10.0.0", None, ""),
            ("containerd://1.6.20~ds1", without, "containerd 1.7"),
            ("containerd://1.6.36", without, "1.6.36"),
            ("containerd://1.10", without, "enable_cdi = true"),
            ("containerd://0.9.0", without, "containerd 1.7"),
            ("containerd://", unknown, "--runtime-with-cdi containerd"),
            ("containerd://unknown", unknown, "unknown"),
            ("cri-o://1.34.1", None, ""),
            ("cri-o://1.23.0", None, ""),
            ("cri-o://1.22.5", without, "CRI-O 1.23"),
            ("docker://20.10.7", without, "containerd or CRI-O"),
            ("docker://28.0.0", without, "--runtime-with-cdi docker"),
            ("kata://3.0.0", unknown, "--runtime-with-cdi kata"),
            ("", unknown, "asked again"),
            ("containerd", unknown, "asked again"),
            ("://1.7", unknown, "asked again"),
        ] {
            let refused = judge(text, &[]).err();
            assert_eq!(refused.as_ref().map(|(reason, _)| *reason), reason, "{text}");
            let words = refused.map(|(_, words)| words).unwrap_or_default();
            assert!(words.contains(fix), "{text}: {words}");
        }
        let vouched = ["kata", "docker", "containerd"].map(str::to_owned);
        for text in [
            "kata://3.0.0",
            "docker://28.0.0",
            "kata://",
            "containerd://1.7.27",
            "containerd://2.0.0",
        ] {
            assert_eq!(judge(text, &vouched), Ok(()), "{text}");
        }
        assert!(judge("containerd://1.6.0", &vouched).is_err(), "no setting helps");
        assert!(judge("cri-o://1.22.0", &vouched).is_err());
        assert!(judge("", &["".to_owned()]).is_err());
    }

    #[test]
    fn versions_are_read_or_none() {
        for (text, found) in [
            ("v1.34.2+k3s1", Some((1, 34))),
            ("1.6.20~ds1", Some((1, 6))),
            ("1.36", Some((1, 36))),
            ("1", None),
            ("1.", None),
            ("x.1", None),
            ("1.99999999999", None),
            ("", None),
        ] {
            assert_eq!(version(text), found, "{text}");
        }
    }
}
