//! Forms in which the page is served, and the one that a collector asks for.
//!
//! The page is written once, in OpenMetrics' text format 1.0.0; Prometheus' text format 0.0.4 is made of its lines, which
//! say all that it needs. So a daemon that passes on another one's page has both.
//!
//! Promises: whatever the header says, the answer is one of the two; a collector that does not ask for OpenMetrics gets
//! 0.0.4, which all of them read. Pure.

use std::fmt::Write;

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// OpenMetrics 1.0.0.
    Open,
    /// Prometheus' 0.0.4.
    Plain,
}

impl TextFormat {
    /// The answer's Content-Type.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Open => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The form that these Accept headers prefer. Of equal ones OpenMetrics, which also says the units.
    pub(crate) fn accepted<'a>(headers: impl Iterator<Item = &'a str>) -> Self {
        let (mut open, mut plain) = (0, 0);
        for range in headers.flat_map(|header| header.split(',')) {
            let Some(range) = MediaRange::read(range) else { continue };
            match range.media_type.as_str() {
                "application/openmetrics-text" if matches!(range.version, None | Some("1.0.0")) => {
                    open = open.max(range.weight);
                }
                "text/plain" if matches!(range.version, None | Some("0.0.4")) => {
                    plain = plain.max(range.weight);
                }
                _ => {}
            }
        }
        if open > 0 && open >= plain { Self::Open } else { Self::Plain }
    }
}

/// One part of an Accept header.
struct MediaRange<'a> {
    media_type: String,
    version: Option<&'a str>,
    /// In thousandths.
    weight: u32,
}

impl<'a> MediaRange<'a> {
    /// `None` for one whose weight is none.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next()?.to_ascii_lowercase();
        let mut range = Self { media_type, version: None, weight: 1000 };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            let value = value.trim().trim_matches('"');
            if name.trim().eq_ignore_ascii_case("q") {
                let weight: f32 = value.parse().ok()?;
                // In range, and no more digits than a header may have.
                let thousandths = (0.0..=1.0).contains(&weight).then_some(weight * 1000.0)?;
                range.weight = thousandths as u32;
            } else if name.trim().eq_ignore_ascii_case("version") {
                range.version = Some(value);
            }
        }
        Some(range)
    }
}

/// A page in OpenMetrics' format, as one in Prometheus' format 0.0.4: there a family has its samples' name, no unit and no
/// type of facts, help has no escaped quotes, and nothing marks the end.
pub(crate) fn as_plain(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    let mut suffix = "";
    for line in page.lines() {
        let told = line.strip_prefix("# ").and_then(|rest| rest.split_once(' '));
        // Writing into a String cannot fail.
        let _ = match told.map(|(word, rest)| (word, rest.split_once(' ').unwrap_or((rest, "")))) {
            Some(("TYPE", (name, "counter"))) => {
                suffix = "_total";
                writeln!(text, "# TYPE {name}_total counter")
            }
            Some(("TYPE", (name, "info"))) => {
                suffix = "_info";
                writeln!(text, "# TYPE {name}_info gauge")
            }
            Some(("TYPE", (name, kind))) => {
                suffix = "";
                writeln!(text, "# TYPE {name} {kind}")
            }
            Some(("HELP", (name, help))) => {
                writeln!(text, "# HELP {name}{suffix} {}", help.replace("\\\"", "\""))
            }
            _ if line.starts_with('#') => Ok(()),
            _ => writeln!(text, "{line}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(headers: &[&str]) -> TextFormat {
        TextFormat::accepted(headers.iter().copied())
    }

    #[test]
    fn a_collector_gets_what_it_prefers() {
        // As Prometheus 3, Prometheus 2.42 and one that is told to take 0.0.4 alone ask.
        let three = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;\
                     escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let two = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;\
                   version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!([accepted(&[three]), accepted(&[two])], [TextFormat::Open; 2]);
        for plain in [
            &[][..],
            &["*/*"],
            &["text/plain;version=0.0.4;q=0.5,*/*;q=0.1"],
            &["text/html, application/json"],
            &["application/openmetrics-text;q=0.2, text/plain"],
            &["application/openmetrics-text; q=0"],
            &["application/openmetrics-text; version=0.0.1, text/plain;version=0.0.4;q=0.5"],
            &["application/openmetrics-text;q=7", "application/openmetrics-text;q=NaN"],
            &[",;=;,q=1", ";;;", "application/openmetrics-text/x"],
        ] {
            assert_eq!(accepted(plain), TextFormat::Plain, "{plain:?}");
        }
        for open in [
            &["application/openmetrics-text"][..],
            &["text/plain;q=0.3", "Application/OpenMetrics-Text; Version=\"1.0.0\" ; Q=0.9"],
        ] {
            assert_eq!(accepted(open), TextFormat::Open, "{open:?}");
        }
    }

    #[test]
    fn the_older_format_has_the_samples_names() {
        let page = "# TYPE a_seconds counter\n# UNIT a_seconds seconds\n# HELP a_seconds Time \\\"x\\\" \\\\ y.\n\
                    a_seconds_total{l=\"# \\\" TYPE\"} 1.5\n# TYPE b info\n# HELP b Facts.\nb_info{v=\"1\"} 1\n\
                    # TYPE c gauge\n# HELP c C.\nc 2\n# EOF\n";
        let plain = "# TYPE a_seconds_total counter\n# HELP a_seconds_total Time \"x\" \\\\ y.\n\
                     a_seconds_total{l=\"# \\\" TYPE\"} 1.5\n# TYPE b_info gauge\n# HELP b_info Facts.\n\
                     b_info{v=\"1\"} 1\n# TYPE c gauge\n# HELP c C.\nc 2\n";
        assert_eq!(as_plain(page), plain);
        assert_eq!(as_plain(""), "");
    }
}
