// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The rules of `fi_domain_attr`: fi_domain(3), "DOMAIN ATTRIBUTES". The rules of `mr_mode` are in `mr`.
#![forbid(unsafe_code)]

use super::check::Verdict;
use super::check_context::own_or;
use super::prototype::since;
use super::reason::Value;
use super::{DomainAttr, Hints, mr};
use crate::Mode;
use abi::*;

pub(super) fn check_domain(
    verdict: &mut Verdict,
    offered: &DomainAttr,
    version: u32,
    hints: &Hints,
) {
    let Some(wanted) = &hints.domain else {
        return;
    };
    check_models(verdict, wanted, offered, version);
    if mr::agree(version, Some(wanted.mr_mode), offered.mr_mode, hints).is_none() {
        verdict.refuse(
            "domain_attr.mr_mode",
            Value::MrMode(wanted.mr_mode),
            Value::MrMode(offered.mr_mode),
        );
    }
    verdict.at_most(
        "domain_attr.cq_data_size",
        wanted.cq_data_size,
        offered.cq_data_size,
    );
    if version >= since::V1_5 {
        check_1_5(verdict, wanted, offered, hints.mode);
    }
    if version >= since::V1_20 {
        verdict.at_most(
            "domain_attr.max_ep_auth_key",
            wanted.max_ep_auth_key,
            offered.max_ep_auth_key,
        );
    }
    if version >= since::V2_5 {
        verdict.at_most(
            "domain_attr.max_cntr_value",
            wanted.max_cntr_value as usize,
            offered.max_cntr_value as usize,
        );
        verdict.at_most(
            "domain_attr.max_err_cntr_value",
            wanted.max_err_cntr_value as usize,
            offered.max_err_cntr_value as usize,
        );
    }
}

fn check_models(verdict: &mut Verdict, wanted: &DomainAttr, offered: &DomainAttr, version: u32) {
    let threading: &[u32] = match version < since::V2_0 {
        true => &THREADING_1,
        false => &THREADING,
    };
    if rank(threading, wanted.threading) < rank(threading, offered.threading) {
        verdict.refuse(
            "domain_attr.threading",
            Value::Threading(wanted.threading),
            Value::Threading(offered.threading),
        );
    }
    if rank(&PROGRESS, wanted.progress) < rank(&PROGRESS, offered.progress) {
        verdict.refuse(
            "domain_attr.progress",
            Value::Progress(wanted.progress),
            Value::Progress(offered.progress),
        );
    }
    if rank(&RESOURCE_MGMT, wanted.resource_mgmt) < rank(&RESOURCE_MGMT, offered.resource_mgmt) {
        verdict.refuse(
            "domain_attr.resource_mgmt",
            Value::ResourceMgmt(wanted.resource_mgmt),
            Value::ResourceMgmt(offered.resource_mgmt),
        );
    }
    let av_types = [FI_AV_UNSPEC.0, FI_AV_MAP.0, FI_AV_TABLE.0];
    let either = offered.av_type == FI_AV_UNSPEC.0 && av_types.contains(&wanted.av_type);
    if wanted.av_type != FI_AV_UNSPEC.0 && wanted.av_type != offered.av_type && !either {
        verdict.refuse(
            "domain_attr.av_type",
            Value::AvType(wanted.av_type),
            Value::AvType(offered.av_type),
        );
    }
}

/// Checks members that version 1.5 added. The structs of older programs have other data in their places.
fn check_1_5(verdict: &mut Verdict, wanted: &DomainAttr, offered: &DomainAttr, mode: Mode) {
    verdict.at_most("domain_attr.cntr_cnt", wanted.cntr_cnt, offered.cntr_cnt);
    verdict.at_most(
        "domain_attr.mr_iov_limit",
        wanted.mr_iov_limit,
        offered.mr_iov_limit,
    );
    verdict.subset("domain_attr.caps", wanted.caps, offered.caps, Value::Caps);
    verdict.needs("domain_attr.mode", offered.mode, own_or(wanted.mode, mode));
    let in_av = wanted.auth_key_size == FI_AV_AUTH_KEY && offered.max_ep_auth_key > 0;
    if !in_av {
        verdict.at_most(
            "domain_attr.auth_key_size",
            wanted.auth_key_size,
            offered.auth_key_size,
        );
    }
    verdict.at_most(
        "domain_attr.max_err_data",
        wanted.max_err_data,
        offered.max_err_data,
    );
    verdict.at_most("domain_attr.mr_cnt", wanted.mr_cnt, offered.mr_cnt);
}

/// Returns the position of a value in a list that begins with the highest demand, plus 1. A value outside the list
/// gets 0 and so exceeds every offer.
fn rank(order: &[u32], value: u32) -> usize {
    let position = order.iter().position(|known| *known == value);
    position.map_or(0, |position| position + 1)
}

/// Values in the order of their demands on the provider, the highest first.
const THREADING: [u32; 4] = [
    FI_THREAD_SAFE.0,
    FI_THREAD_COMPLETION.0,
    FI_THREAD_DOMAIN.0,
    FI_THREAD_UNSPEC.0,
];
/// The same for programs of the 1.x API, which has two more levels.
const THREADING_1: [u32; 6] = [
    FI_THREAD_SAFE.0,
    FI_THREAD_FID.0,
    FI_THREAD_ENDPOINT.0,
    FI_THREAD_COMPLETION.0,
    FI_THREAD_DOMAIN.0,
    FI_THREAD_UNSPEC.0,
];
const PROGRESS: [u32; 4] = [
    FI_PROGRESS_AUTO.0,
    FI_PROGRESS_MANUAL.0,
    FI_PROGRESS_CONTROL_UNIFIED.0,
    FI_PROGRESS_UNSPEC.0,
];
const RESOURCE_MGMT: [u32; 3] = [FI_RM_ENABLED.0, FI_RM_DISABLED.0, FI_RM_UNSPEC.0];
