// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The words for capabilities, modes, endpoint types and address formats on a command line: the names of fi_getinfo(3),
//! in upper or lower case, with their prefix or without.

use abi::*;

/// Returns the union of the words in `text`, which `|` separates.
pub fn set(words: &[(&str, u64)], text: &str, what: &str) -> Result<u64, String> {
    text.split('|')
        .filter(|word| !word.is_empty())
        .try_fold(0, |sum, word| Ok(sum | one(words, word, what)?))
}

/// Returns the value of the word `text`.
pub fn one<T: Copy>(words: &[(&str, T)], text: &str, what: &str) -> Result<T, String> {
    words
        .iter()
        .find(|(word, _)| is_meant(word, text))
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("Unrecognized {what}: {text}"))
}

/// Whether a text is this word, or the word without the prefix that all words of its kind have.
fn is_meant(word: &str, text: &str) -> bool {
    let prefixes = ["", "FI_", "FI_EP_"];
    let mut names = prefixes
        .iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    names.any(|name| name.eq_ignore_ascii_case(text))
}

macro_rules! words {
    ($($name:ident)+) => { &[$((stringify!($name), $name)),+] };
}

pub const CAPS: &[(&str, u64)] = words! {
    FI_MSG FI_RMA FI_TAGGED FI_ATOMIC FI_ATOMICS FI_MULTICAST FI_COLLECTIVE
    FI_READ FI_WRITE FI_RECV FI_SEND FI_TRANSMIT FI_REMOTE_READ FI_REMOTE_WRITE
    FI_MULTI_RECV FI_REMOTE_CQ_DATA FI_MORE FI_PEEK FI_TRIGGER FI_FENCE
    FI_AV_USER_ID FI_FIREWALL_ADDR FI_PEER FI_TAGGED_DIRECTED_RECV FI_TAGGED_MULTI_RECV
    FI_HMEM FI_EXACT_DIRECTED_RECV FI_RMA_PMEM FI_SOURCE_ERR FI_LOCAL_COMM FI_REMOTE_COMM
    FI_SHARED_AV FI_RMA_EVENT FI_SOURCE FI_NAMED_RX_CTX FI_DIRECTED_RECV FI_WR
};

pub const MODES: &[(&str, u64)] = words! {
    FI_CONTEXT FI_MSG_PREFIX FI_ASYNC_IOV FI_RX_CQ_DATA FI_LOCAL_MR FI_CONTEXT2
};

pub const EP_TYPES: &[(&str, fi_ep_type)] = words! {
    FI_EP_UNSPEC FI_EP_MSG FI_EP_DGRAM FI_EP_RDM
};

pub const FORMATS: &[(&str, u32)] = words! {
    FI_FORMAT_UNSPEC FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_SOCKADDR_IB FI_SOCKADDR_IP
    FI_ADDR_STR FI_ADDR_PSMX FI_ADDR_PSMX2 FI_ADDR_PSMX3 FI_ADDR_GNI FI_ADDR_BGQ FI_ADDR_MLX
    FI_ADDR_IB_UD FI_ADDR_EFA FI_ADDR_OPX FI_ADDR_CXI FI_ADDR_UCX
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_join_and_ignore_case() {
        let caps = |text| set(CAPS, text, "capability");
        assert_eq!(caps("FI_MSG|fi_rma"), Ok(FI_MSG | FI_RMA));
        assert_eq!(caps("|FI_MSG||FI_RMA|"), Ok(FI_MSG | FI_RMA));
        assert_eq!(caps(""), Ok(0));
        for text in ["Fi_Ep_Rdm", "rdm", "ep_rdm"] {
            assert_eq!(one(EP_TYPES, text, "endpoint type"), Ok(FI_EP_RDM));
        }
        assert_eq!(one(FORMATS, "sockaddr_in6", ""), Ok(FI_SOCKADDR_IN6));
    }

    #[test]
    fn other_words_are_named() {
        let message = |text| set(CAPS, text, "capability").unwrap_err();
        assert_eq!(message("FI_MSG|foo"), "Unrecognized capability: foo");
        assert_eq!(
            message("FI_MSG |FI_RMA"),
            "Unrecognized capability: FI_MSG "
        );
        assert!(one(FORMATS, "", "address format").is_err());
    }

    #[test]
    fn every_capability_is_a_single_bit_and_no_mode() {
        for (word, bits) in CAPS.iter().chain(MODES) {
            assert_eq!(bits.count_ones(), 1, "{word}");
        }
    }
}
