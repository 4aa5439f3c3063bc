// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The ops tables of wrappers: every slot of the list of `object::slots`, for each kind of object that has it.
//!
//! All slots are generated here; the few that need code of their own call `special`.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::Ordering;

use super::call::{Call, Name, Outcome, Raw, Slot, UNFINISHED};
use super::translate::Argument;
use super::{Wrapped, Wrapper, special, trigger};
use abi::*;
use object::handle;
use object::slots::{self, Answer, each_table};

macro_rules! forwards {
    ($(
        $(#[$doc:meta])*
        $module:ident: $ops:ident in $holder:ident.$table:ident {
            $($age:ident $slot:ident $args:tt -> $return:ty [$($exported:ident)*];)*
        }
    )*) => { $(
        forwards!(@table $(#[$doc])* $module: $ops { $($slot $args -> $return;)* });
    )* };

    // Objects that are not wrapped.
    (@table $(#[$doc:meta])* profile: $($rest:tt)*) => {};
    (@table $(#[$doc:meta])* xpu_ctx: $($rest:tt)*) => {};
    (@table $(#[$doc:meta])* $module:ident: $ops:ident { $($slot:ident $args:tt -> $return:ty;)* }) => {
        $(#[$doc])*
        pub(super) mod $module {
            use super::*;

            pub fn table<H: Wrapped>() -> *mut $ops {
                let table: &'static $ops = &$ops {
                    size: size_of::<$ops>(),
                    $($slot: Some($slot::<H>),)*
                };
                ptr::from_ref(table).cast_mut()
            }

            $(forwards!(@slot $module $slot $args -> $return);)*
        }
    };

    (@slot base close $args:tt -> $return:ty) => {
        use super::special::close;
    };
    (@slot $module:ident $slot:ident ($object:ident: $of:ty $(, $arg:ident: $type:ty)*) -> $return:ty) => {
        #[allow(clippy::too_many_arguments, unused_mut, unused_variables)]
        unsafe extern "C" fn $slot<H: Wrapped>($object: $of $(, $arg: $type)*) -> $return {
            // SAFETY: NULL or an open handle, because the call came through its table.
            let Some(wrapper) = (unsafe { handle::get::<Wrapper<H>, _>($object) }) else {
                return <$return as Answer>::INVALID;
            };
            // Relaxed: the application orders calls that change the flags with this one.
            if wrapper.besides.load(Ordering::Relaxed) == 0 {
                // SAFETY: as the caller promises for this call.
                return unsafe { forwards!(@through wrapper $module $slot $object: $of $(, $arg: $type)*) };
            }
            const NAMES: &[Name] = &[$(Name::$arg),*];
            const SLOT: Slot = Slot::of(stringify!($module), stringify!($slot));
            let mut values = [$(Raw::number(&$arg)),*];
            let mut call = Call {
                slot: SLOT,
                object: wrapper.fid().addr(),
                result: UNFINISHED,
                format: wrapper.format,
                domain: wrapper.domain,
                app_api: wrapper.layer.app_api,
                names: NAMES,
                values: &mut values,
                kept: Vec::new(),
            };
            let watch = wrapper.layer.watch.as_deref();
            let before = watch.map_or(0, |watch| watch.before(&mut call));
            // SAFETY: as the caller promises for this call.
            unsafe { trigger::enter_default_trigger(wrapper, &call) };
            let mut numbers = call.values.iter().copied();
            // There are as many values as arguments.
            $(let $arg = numbers.next().map_or($arg, <$type as Raw>::of_number);)*
            // SAFETY: as the caller promises for this call; a watch replaces values only by equivalent ones.
            let result = unsafe { forwards!(@through wrapper $module $slot $object: $of $(, $arg: $type)*) };
            if let Some(watch) = watch {
                call.result = Outcome::number(&result);
                watch.after(&call, before, call.result);
            }
            result
        }
    };

    // The call of the object inside, with the arguments translated.
    (@through $wrapper:ident $module:ident $slot:ident $object:ident: $of:ty $(, $arg:ident: $type:ty)*) => {{
        $(
            // The variable has the name of the argument; the tuple also keeps the value that `leave` needs.
            let mut $arg = ($arg, <$type as Argument>::Held::default());
            $arg.0 = Argument::enter($arg.0, &mut $arg.1);
        )*
        let result = forwards!(@inside $module $slot ($wrapper, $of $(, $arg.0)*));
        let succeeded = Outcome::number(&result) >= 0;
        $(Argument::leave($arg.0, $arg.1, &$wrapper.layer, succeeded);)*
        result
    }};

    (@inside base control $args:tt) => { forwards!(@special control $args) };
    (@inside base bind $args:tt) => { forwards!(@special bind $args) };
    (@inside base ops_open $args:tt) => { forwards!(@special ops_open $args) };
    (@inside fabric trywait $args:tt) => { forwards!(@special trywait $args) };
    (@inside mr regattr $args:tt) => { forwards!(@special regattr $args) };
    (@inside domain endpoint $args:tt) => { forwards!(@special endpoint $args) };
    (@inside domain endpoint2 $args:tt) => { forwards!(@special endpoint2 $args) };
    (@inside domain scalable_ep $args:tt) => { forwards!(@special scalable_ep $args) };
    (@inside domain srx_ctx $args:tt) => { forwards!(@special srx_ctx $args) };
    (@inside ep tx_ctx $args:tt) => { forwards!(@special tx_ctx $args) };
    (@inside ep rx_ctx $args:tt) => { forwards!(@special rx_ctx $args) };
    (@inside domain cq_open $args:tt) => { forwards!(@special cq_open $args) };
    (@inside eq read $args:tt) => { forwards!(@special eq_read $args) };
    (@inside eq sread $args:tt) => { forwards!(@special eq_sread $args) };
    (@inside eq readerr $args:tt) => { forwards!(@special eq_readerr $args) };
    (@inside cm join $args:tt) => { forwards!(@special join $args) };
    (@inside $module:ident recvmsg $args:tt) => { forwards!(@message $module recvmsg $args) };
    (@inside $module:ident sendmsg $args:tt) => { forwards!(@message $module sendmsg $args) };
    (@inside $module:ident readmsg $args:tt) => { forwards!(@message $module readmsg $args) };
    (@inside $module:ident writemsg $args:tt) => { forwards!(@message $module writemsg $args) };
    (@inside atomic readwritemsg ($wrapper:ident, $of:ty, $msg:expr, $a:expr, $b:expr, $c:expr, $flags:expr)) => {{
        if $flags & FI_TRIGGER != 0 && !$msg.is_null() {
            trigger::enter_trigger((*$msg).context);
        }
        forwards!(@plain atomic readwritemsg ($wrapper, $of, $msg, $a, $b, $c, $flags))
    }};
    (@inside atomic compwritemsg ($wrapper:ident, $of:ty, $msg:expr, $a:expr, $b:expr, $c:expr, $d:expr, $e:expr,
        $f:expr, $flags:expr)) => {{
        if $flags & FI_TRIGGER != 0 && !$msg.is_null() {
            trigger::enter_trigger((*$msg).context);
        }
        forwards!(@plain atomic compwritemsg ($wrapper, $of, $msg, $a, $b, $c, $d, $e, $f, $flags))
    }};
    (@message $module:ident $slot:ident ($wrapper:ident, $of:ty, $msg:expr, $flags:expr)) => {{
        if $flags & FI_TRIGGER != 0 && !$msg.is_null() {
            trigger::enter_trigger((*$msg).context);
        }
        forwards!(@plain $module $slot ($wrapper, $of, $msg, $flags))
    }};
    (@inside $module:ident $slot:ident $args:tt) => { forwards!(@plain $module $slot $args) };
    (@plain $module:ident $slot:ident ($wrapper:ident, $of:ty $(, $arg:expr)*)) => {
        slots::$module::$slot($wrapper.inner.as_ptr().cast_const() as $of $(, $arg)*)
    };
    (@special $call:ident ($wrapper:ident, $of:ty $(, $arg:expr)*)) => {
        special::$call($wrapper $(, $arg)*)
    };
}

each_table!(forwards);
