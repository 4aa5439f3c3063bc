// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_VERBS_ variables: fi_verbs(7).

use core::ops::RangeInclusive;

use super::SOURCE;
use base::log::{Subsys, log_warn};
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        /// Default sizes of queues, and default numbers of pieces.
        tx_size: i32 = int(384), "tx_size",
            "transmit queue size of endpoints whose hints have none (default: 384)";
        rx_size: i32 = int(384), "rx_size",
            "receive queue size of endpoints whose hints have none (default: 384)";
        tx_iov_limit: i32 = int(4), "tx_iov_limit",
            "number of pieces of a send or access if the hints have none (default: 4)";
        rx_iov_limit: i32 = int(4), "rx_iov_limit",
            "number of pieces of a receive if the hints have none (default: 4)";
        /// Bytes that requests should carry themselves; 0 means as many as the device supports.
        inline_size: i32 = int(256), "inline_size",
            "bytes that a request can carry itself; 0 for as many as the device supports (default: 256)";
        min_rnr_timer: i32 = int(12), "min_rnr_timer",
            "pause before a message without a receive is repeated, as in ibv_modify_qp(3) (default: 12)";
        use_odp: bool = flag(false), "use_odp",
            "let devices fetch pages when they access them, instead of locking registered memory (default: no)";
        prefer_xrc: bool = flag(false), "prefer_xrc",
            "accepted and ignored: prefer XRC, which is not offered (default: no)";
        xrcd_filename: Option<String> = text(), "xrcd_filename",
            "accepted and ignored: file of the XRC domain, as XRC is not offered";
        = ignored(Kind::Int), "cqread_bunch_size",
            "accepted and ignored: completions that are taken at a time (default: 8)";
        /// Index of the identifier from which names of fabrics are made, and of datagram endpoints.
        gid_idx: Option<i32> = any_int(), "gid_idx",
            "index of the identifier that names fabrics and FI_EP_DGRAM endpoints (default: 0; on Ethernet endpoints have \
             the first routable one of RoCE v2)";
        device_name: Option<String> = text(), "device_name",
            "beginnings of names of the devices to use, separated by commas (default: all)";
        use_dmabuf: bool = flag(true), "use_dmabuf",
            "register memory of other devices by dma-bufs (default: yes)";
        iface: Option<String> = text(), "iface",
            "names of the network interfaces to use, or their beginnings, separated by commas (default: all)";
        dgram_use_name_server: bool = flag(false), "dgram_use_name_server",
            "serve names of FI_EP_DGRAM endpoints to other nodes, and ask theirs (default: no)";
        dgram_name_server_port: i32 = int(5678), "dgram_name_server_port",
            "TCP port of the name server (default: 5678)";
        nic_affinity_policy: Option<String> = text(), "nic_affinity_policy",
            "which devices come first: manual, auto (those near the device below) or none (default: none)";
        affinity_device: Option<String> = text(), "affinity_device",
            "PCI address, as 0000:3b:00.0, of the device for which a near one is wanted";
        nic_affinity_config: Option<String> = text(), "nic_affinity_config",
            "file with PCI addresses and device names, a pair on each line, for manual";
    }
}

impl Params {
    /// Reads the settings from the environment.
    pub fn read() -> Params {
        let params = Params::given();
        for (name, is_set) in [
            ("FI_VERBS_PREFER_XRC", params.prefer_xrc),
            ("FI_VERBS_XRCD_FILENAME", params.xrcd_filename.is_some()),
        ] {
            if is_set {
                log_warn!(
                    &SOURCE,
                    Subsys::Core,
                    "{name} has no effect: this library offers no XRC endpoints"
                );
            }
        }
        params
    }

    /// Whether all numbers are in their range. If one is not, there are no entries.
    pub fn are_valid(&self) -> bool {
        const ANY: RangeInclusive<i32> = 0..=i32::MAX;
        let numbers = [
            ("FI_VERBS_TX_SIZE", self.tx_size, ANY),
            ("FI_VERBS_RX_SIZE", self.rx_size, ANY),
            ("FI_VERBS_TX_IOV_LIMIT", self.tx_iov_limit, ANY),
            ("FI_VERBS_RX_IOV_LIMIT", self.rx_iov_limit, ANY),
            ("FI_VERBS_INLINE_SIZE", self.inline_size, ANY),
            ("FI_VERBS_MIN_RNR_TIMER", self.min_rnr_timer, 0..=31),
            ("FI_VERBS_GID_IDX", self.gid_idx.unwrap_or(0), 0..=255),
            (
                "FI_VERBS_DGRAM_NAME_SERVER_PORT",
                self.dgram_name_server_port,
                0..=65535,
            ),
        ];
        let wrong = numbers
            .iter()
            .find(|(_, value, range)| !range.contains(value));
        if let Some((name, value, _)) = wrong {
            log_warn!(
                &SOURCE,
                Subsys::Core,
                "{name}={value} is out of range, so no device is offered"
            );
        }
        wrong.is_none()
    }
}

/// A setting that is not negative: `Params::are_valid`.
pub fn count(setting: i32) -> usize {
    usize::try_from(setting).unwrap_or(0)
}
