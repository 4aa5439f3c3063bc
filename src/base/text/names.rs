// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The names of enumerators, as `fi_tostr` prints them: fi_fabric(3).
//!
//! Numbers outside an enumeration are possible everywhere, because C may store any integer in an enum field.
#![forbid(unsafe_code)]

use abi::*;

/// The names of one enumeration.
pub struct Names(&'static [(u32, &'static str)]);

impl Names {
    pub fn of(&self, number: u32) -> &'static str {
        self.0
            .iter()
            .find(|(known, _)| *known == number)
            .map_or(UNKNOWN, |(_, name)| name)
    }

    /// Returns the name for a sentence, or the number if it has no name.
    pub fn or_number(&self, number: u32) -> String {
        match self.of(number) {
            UNKNOWN => number.to_string(),
            name => name.to_owned(),
        }
    }
}

/// The text for a number without a name.
pub const UNKNOWN: &str = "Unknown";

/// Enumerators of a `c_enum!`.
macro_rules! names {
    ($($name:ident)*) => { Names(&[$(($name.0, stringify!($name)),)*]) };
}

/// Constants that are plain numbers.
macro_rules! numbers {
    ($($name:ident)*) => { Names(&[$(($name, stringify!($name)),)*]) };
}

pub const EP_TYPE: Names = names!(FI_EP_UNSPEC FI_EP_MSG FI_EP_DGRAM FI_EP_RDM);

pub const ADDR_FORMAT: Names = numbers!(
    FI_FORMAT_UNSPEC FI_SOCKADDR FI_SOCKADDR_IN FI_SOCKADDR_IN6 FI_SOCKADDR_IB FI_ADDR_MLX FI_ADDR_STR FI_ADDR_PSMX2
    FI_ADDR_IB_UD FI_ADDR_EFA FI_ADDR_PSMX3 FI_ADDR_OPX FI_ADDR_CXI FI_ADDR_UCX FI_SOCKADDR_IP
);

pub const THREADING: Names =
    names!(FI_THREAD_UNSPEC FI_THREAD_SAFE FI_THREAD_DOMAIN FI_THREAD_COMPLETION);

pub const PROGRESS: Names =
    names!(FI_PROGRESS_UNSPEC FI_PROGRESS_AUTO FI_PROGRESS_MANUAL FI_PROGRESS_CONTROL_UNIFIED);

pub const RESOURCE_MGMT: Names = names!(FI_RM_UNSPEC FI_RM_DISABLED FI_RM_ENABLED);

pub const PROTOCOL: Names = numbers!(
    FI_PROTO_UNSPEC FI_PROTO_RDMA_CM_IB_RC FI_PROTO_IWARP FI_PROTO_IB_UD FI_PROTO_UDP FI_PROTO_SOCK_TCP
    FI_PROTO_IWARP_RDM FI_PROTO_IB_RDM FI_PROTO_RXM FI_PROTO_RXD FI_PROTO_MLX FI_PROTO_NETWORKDIRECT FI_PROTO_PSMX2
    FI_PROTO_SHM FI_PROTO_RDMA_CM_IB_XRC FI_PROTO_EFA FI_PROTO_PSMX3 FI_PROTO_RXM_TCP FI_PROTO_OPX FI_PROTO_CXI
    FI_PROTO_XNET FI_PROTO_UCX FI_PROTO_SM2 FI_PROTO_CXI_RNR FI_PROTO_LPP FI_PROTO_LNX
);

pub const AV_TYPE: Names = names!(FI_AV_UNSPEC FI_AV_MAP FI_AV_TABLE);

pub const DATATYPE: Names = names!(
    FI_INT8 FI_UINT8 FI_INT16 FI_UINT16 FI_INT32 FI_UINT32 FI_INT64 FI_UINT64 FI_FLOAT FI_DOUBLE FI_FLOAT_COMPLEX
    FI_DOUBLE_COMPLEX FI_LONG_DOUBLE FI_LONG_DOUBLE_COMPLEX FI_INT128 FI_UINT128
);

pub const ATOMIC_OP: Names = names!(
    FI_MIN FI_MAX FI_SUM FI_PROD FI_LOR FI_LAND FI_BOR FI_BAND FI_LXOR FI_BXOR FI_ATOMIC_READ FI_ATOMIC_WRITE FI_CSWAP
    FI_CSWAP_NE FI_CSWAP_LE FI_CSWAP_LT FI_CSWAP_GE FI_CSWAP_GT FI_MSWAP
);

pub const EQ_EVENT: Names = numbers!(
    FI_NOTIFY FI_CONNREQ FI_CONNECTED FI_SHUTDOWN FI_MR_COMPLETE FI_AV_COMPLETE FI_JOIN_COMPLETE
);

pub const OP_TYPE: Names = names!(
    FI_OP_RECV FI_OP_SEND FI_OP_TRECV FI_OP_TSEND FI_OP_READ FI_OP_WRITE FI_OP_ATOMIC FI_OP_FETCH_ATOMIC
    FI_OP_COMPARE_ATOMIC FI_OP_CNTR_SET FI_OP_CNTR_ADD
);

pub const COLLECTIVE_OP: Names = names!(
    FI_BARRIER FI_BROADCAST FI_ALLTOALL FI_ALLREDUCE FI_ALLGATHER FI_REDUCE_SCATTER FI_REDUCE FI_SCATTER FI_GATHER
);

pub const HMEM_IFACE: Names = names!(
    FI_HMEM_SYSTEM FI_HMEM_CUDA FI_HMEM_ROCR FI_HMEM_ZE FI_HMEM_NEURON FI_HMEM_SYNAPSEAI
);

pub const CQ_FORMAT: Names = names!(
    FI_CQ_FORMAT_UNSPEC FI_CQ_FORMAT_CONTEXT FI_CQ_FORMAT_MSG FI_CQ_FORMAT_DATA FI_CQ_FORMAT_TAGGED
);

pub const CQ_WAIT_COND: Names = names!(FI_CQ_COND_NONE FI_CQ_COND_THRESHOLD);

pub const WAIT_OBJ: Names = names!(
    FI_WAIT_NONE FI_WAIT_UNSPEC FI_WAIT_SET FI_WAIT_FD FI_WAIT_MUTEX_COND FI_WAIT_YIELD FI_WAIT_POLLFD
);

pub const CNTR_EVENTS: Names = names!(FI_CNTR_EVENTS_COMP FI_CNTR_EVENTS_BYTES);

pub const BUS_TYPE: Names = names!(FI_BUS_UNKNOWN FI_BUS_PCI);

pub const LINK_STATE: Names = names!(FI_LINK_UNKNOWN FI_LINK_DOWN FI_LINK_UP);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_without_a_name_is_unknown() {
        assert_eq!(EP_TYPE.of(FI_EP_RDM.0), "FI_EP_RDM");
        assert_eq!(EP_TYPE.of(4), UNKNOWN);
        assert_eq!(EP_TYPE.of(u32::MAX), UNKNOWN);
        assert_eq!(PROTOCOL.of(FI_PROTO_XNET), "FI_PROTO_XNET");
        assert_eq!(PROTOCOL.of(7), UNKNOWN);
    }
}
