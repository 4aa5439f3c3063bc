// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Negotiates options that other releases lack. With such an option a side first sends a hello: the mark (4 bytes,
//! which a release without hellos reads as the length of an address and refuses as too long), the length of the text (4
//! bytes, big-endian), and the text of lines `name=value`. Without such options no hello is sent.

use crate::control::Control;
use crate::options::Options;
use abi::*;
use calls::failure::{Failure, Result};

pub const MARK: [u8; 4] = *b"\0IFP";
/// Limit on the length of the text.
pub const LONGEST: usize = 1024;

/// Exchanges hellos, if the options need it.
pub fn exchange(options: &Options, control: &mut Control) -> Result {
    let Some(asked) = asked(options) else {
        return Ok(());
    };
    let mine = words(options);
    control.send_hello(&mine)?;
    let Some(theirs) = control.receive_hello()? else {
        return Err(Failure::new("control connection", FI_EOPNOTSUPP).detail(format!(
            "the other side is upstream's fi_pingpong, or ours without such options: {asked} needs ours, with the same \
             on both sides"
        )));
    };
    match mine.lines().zip(theirs.lines()).find(|(a, b)| a != b) {
        Some((here, there)) => Err(Failure::new("options", FI_EINVAL)
            .detail(format!("{here:?} here, {there:?} at the other side"))),
        None if mine.lines().count() != theirs.lines().count() => {
            Err(Failure::new("options", FI_EPROTO).detail("the other side is of another version"))
        }
        None => Ok(()),
    }
}

/// Returns the first option that the peer must support.
fn asked(options: &Options) -> Option<&'static str> {
    match options {
        _ if options.operation_named => Some("--op"),
        _ if options.window > 1 => Some("--window"),
        _ if options.warmup > 0 => Some("--warmup"),
        _ => None,
    }
}

fn words(options: &Options) -> String {
    let size = options.size.map_or("all".into(), |size| size.to_string());
    format!(
        "op={}\nwindow={}\nwarmup={}\niterations={}\nsize={size}\ncheck={}\nendpoint={}\n",
        options.operation.name(),
        options.window,
        options.warmup,
        options.iterations,
        options.check,
        match options.ep_type {
            Some(FI_EP_MSG) => "msg",
            Some(FI_EP_RDM) => "rdm",
            Some(_) => "dgram",
            None => "any",
        }
    )
}
