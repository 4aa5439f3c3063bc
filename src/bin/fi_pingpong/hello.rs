// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What both sides must agree on beyond what other releases know. With an option of ours, a side says a hello before
//! anything else: the mark (4 bytes, longer than any address, so that releases that read it as the length of one refuse
//! it), length (4, big-endian), then words `name=value`, one a line. Without such options nothing of this is sent.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::calls::failure::{Failure, Result};
use crate::control::Control;
use crate::options::Options;

pub const MARK: [u8; 4] = *b"\0IFP";
/// Of the words.
pub const LONGEST: usize = 1024;

/// Exchanges hellos, if options ask for it.
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

/// The first option that the peer must know.
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
