// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The grammar of FI_LNX_PROV_LINKS: `link|link`, a link is `member+member`, a member `provider` or
//! `provider:domain,domain`. Blanks around each of these do not matter.

/// A provider of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// A name as in `prov_name` of hints.
    pub provider: String,
    /// Domains, one rail for each, also for a repeated one; empty for all domains.
    pub domains: Vec<String>,
}

impl Member {
    pub fn is_shm(&self) -> bool {
        self.provider.eq_ignore_ascii_case("shm")
    }
}

/// The links of a value. Shared memory comes first in each. Members without a name do not count, nor do links without
/// members.
pub fn parse(text: &str) -> Vec<Vec<Member>> {
    let links = text.split('|').map(|link| {
        let mut members: Vec<Member> = link.split('+').filter_map(member).collect();
        members.sort_by_key(|member| !member.is_shm());
        members
    });
    links.filter(|members| !members.is_empty()).collect()
}

fn member(text: &str) -> Option<Member> {
    let (provider, domains) = text.split_once(':').unwrap_or((text, ""));
    let provider = provider.trim();
    let domains = domains.split(',').map(str::trim);
    let member = Member {
        provider: provider.to_owned(),
        domains: domains
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    (!provider.is_empty()).then_some(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let member = |member: &Member| match member.domains.as_slice() {
            [] => member.provider.clone(),
            domains => format!("{}:{}", member.provider, domains.join(",")),
        };
        let link = |members: &Vec<Member>| members.iter().map(member).collect::<Vec<_>>().join("+");
        parse(text).iter().map(link).collect()
    }

    #[test]
    fn blanks_do_not_matter_and_shared_memory_is_first() {
        for (text, links) in [
            ("shm+tcp;ofi_rxm:eth0", &["shm+tcp;ofi_rxm:eth0"] as &[&str]),
            ("tcp;ofi_rxm:lo|shm", &["tcp;ofi_rxm:lo", "shm"]),
            (
                "\tshm + tcp;ofi_rxm : lo , eth0 ",
                &["shm+tcp;ofi_rxm:lo,eth0"],
            ),
            ("tcp:lo,lo+SHM", &["SHM+tcp:lo,lo"]),
            ("shm", &["shm"]),
            ("", &[]),
            (" | + | :lo", &[]),
            ("tcp:,", &["tcp"]),
        ] {
            assert_eq!(shown(text), links, "{text}");
        }
    }
}
