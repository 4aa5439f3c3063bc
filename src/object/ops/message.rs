// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls that fi_msg(3) and fi_tagged(3) have in common: the same forms, one family with a tag. `message_ops!`
//! generates each family in its own file.

/// The value, or 0 if the family has none.
macro_rules! or_zero {
    () => {
        0
    };
    ($value:expr) => {
        $value
    };
}

/// Table `$ops`, its C functions and its variants, for messages described by `$msg`. With `$tag, $ignore`: the names of
/// the parameters that only tagged calls have.
macro_rules! message_ops {
    ($ops:ident, $msg:ident, $what:ident, $flush:ident $(, $tag:ident, $ignore:ident)?) => {
        pub fn table<T: DataPath>() -> &'static $ops {
            &$ops {
                recv: Some(recv::<T>),
                recvv: Some(recvv::<T>),
                recvmsg: Some(recvmsg::<T>),
                send: Some(send::<T>),
                sendv: Some(sendv::<T>),
                sendmsg: Some(sendmsg::<T>),
                inject: Some(inject::<T>),
                senddata: Some(senddata::<T>),
                injectdata: Some(injectdata::<T>),
                $flush: Some($flush::<T>),
                ..Missing::TABLE
            }
        }

        /// Returns the table of an endpoint that only receives (a shared receive context).
        pub fn receive_table<T: DataPath>() -> &'static $ops {
            &$ops {
                recv: Some(recv::<T>),
                recvv: Some(recvv::<T>),
                recvmsg: Some(recvmsg::<T>),
                $flush: Some($flush::<T>),
                ..Missing::TABLE
            }
        }

        /// Returns the table of an endpoint that only sends (a transmit context).
        pub fn send_table<T: DataPath>() -> &'static $ops {
            &$ops {
                send: Some(send::<T>),
                sendv: Some(sendv::<T>),
                sendmsg: Some(sendmsg::<T>),
                inject: Some(inject::<T>),
                senddata: Some(senddata::<T>),
                injectdata: Some(injectdata::<T>),
                ..Missing::TABLE
            }
        }

        pub static NONE: $ops = Missing::TABLE;

        unsafe extern "C" fn recv<T: DataPath>(
            ep: *mut fid_ep,
            buf: *mut c_void,
            len: usize,
            desc: *mut c_void,
            src_addr: fi_addr_t,
            $($tag: u64,
            $ignore: u64,)?
            context: *mut c_void,
        ) -> isize {
            // SAFETY: the manual page: an open endpoint; the buffer belongs to the library until the completion.
            let call = || unsafe { Ok((endpoint::<T>(ep)?, room(buf, len))) };
            // SAFETY: the manual page: the caller's context is as the flags require.
            let context = unsafe { Given::new(context) };
            probe::post(ep.addr(), context.number(), src_addr, or_zero!($($tag)?));
            status(call().and_then(|(ep, piece): (&T, _)| {
                let flags = ep.rx_flags();
                ep.receive_one(OneRx {
                    what: What::$what,
                    piece,
                    desc: Desc::new(desc),
                    flags,
                    src: src_addr,
                    context: context.with(flags),
                    tag: or_zero!($($tag)?),
                    ignore: or_zero!($($ignore)?),
                })
            }))
        }

        unsafe extern "C" fn recvv<T: DataPath>(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            src_addr: fi_addr_t,
            $($tag: u64,
            $ignore: u64,)?
            context: *mut c_void,
        ) -> isize {
            // SAFETY: as in `recv`, for `count` buffers.
            let call = || unsafe {
                let ep = endpoint::<T>(ep)?;
                Ok((ep, rooms(iov, used(ep, desc), count)?))
            };
            // SAFETY: the manual page: the caller's context is as the flags require.
            let context = unsafe { Given::new(context) };
            probe::post(ep.addr(), context.number(), src_addr, or_zero!($($tag)?));
            status(call().and_then(|(ep, iov): (&T, _)| {
                let flags = ep.rx_flags();
                ep.receive(Rx {
                    what: What::$what,
                    iov,
                    flags,
                    src: src_addr,
                    context: context.with(flags),
                    tag: or_zero!($($tag)?),
                    ignore: or_zero!($($ignore)?),
                })
            }))
        }

        unsafe extern "C" fn recvmsg<T: DataPath>(
            ep: *mut fid_ep,
            msg: *const $msg,
            flags: u64,
        ) -> isize {
            if msg.is_null() {
                return Error::INVAL.negative() as isize;
            }
            // SAFETY: as in `recv`; `msg` is readable during the call.
            let call = || unsafe {
                let ep: &T = endpoint::<T>(ep)?;
                let flags = OpFlags::from_bits_retain(flags);
                check_flags(flags, RECV_FLAGS | more_recv_flags(ep))?;
                let flags = flags | ep.rx_implied();
                let rx = Rx {
                    what: What::$what,
                    iov: rooms((*msg).msg_iov, used(ep, (*msg).desc), (*msg).iov_count)?,
                    flags,
                    src: (*msg).addr,
                    context: Given::new((*msg).context).with(flags),
                    tag: or_zero!($((*msg).$tag)?),
                    ignore: or_zero!($((*msg).$ignore)?),
                };
                Ok((ep, rx))
            };
            let place = ep.addr();
            status(call().and_then(|(ep, rx): (&T, Rx)| {
                probe::post(place, rx.context.number(), rx.src, rx.tag);
                ep.receive(rx)
            }))
        }

        unsafe extern "C" fn $flush<T: DataPath>(ep: *mut fid_ep, flags: u64) -> isize {
            // SAFETY: an open endpoint.
            status(unsafe { endpoint::<T>(ep) }.and_then(|ep| match flags {
                0 => ep.start_receives(),
                _ => Err(Error::INVAL),
            }))
        }

        /// Sends one buffer, with the endpoint's flags or those of an inject call.
        ///
        /// # Safety
        /// As the manual page requires for the arguments.
        #[inline]
        #[allow(clippy::too_many_arguments)] // Those of the C call.
        unsafe fn send_one<T: DataPath>(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest: fi_addr_t,
            context: *mut c_void,
            flags: impl FnOnce(&T, usize) -> Result<OpFlags>,
            data: u64,
            tag: u64,
        ) -> isize {
            // SAFETY: the manual page: an open endpoint; the caller keeps the buffer unchanged until the completion
            // (for inject calls, until the return).
            let call = || unsafe { Ok((endpoint::<T>(ep)?, source(buf, len)?)) };
            // SAFETY: the manual page: the caller's context is as the flags require.
            let context = unsafe { Given::new(context) };
            probe::post(ep.addr(), context.number(), dest, tag);
            status(call().and_then(|(ep, piece): (&T, _)| {
                let flags = flags(ep, len)?;
                ep.transmit_one(OneTx {
                    what: What::$what,
                    piece,
                    desc: Desc::new(desc),
                    flags,
                    dest,
                    context: context.with(flags),
                    data,
                    tag,
                })
            }))
        }

        unsafe extern "C" fn send<T: DataPath>(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            dest_addr: fi_addr_t,
            $($tag: u64,)?
            context: *mut c_void,
        ) -> isize {
            // SAFETY: the caller's promise, passed on.
            unsafe { send_one::<T>(ep, buf, len, desc, dest_addr, context, by_default, 0, or_zero!($($tag)?)) }
        }

        unsafe extern "C" fn senddata<T: DataPath>(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            desc: *mut c_void,
            data: u64,
            dest_addr: fi_addr_t,
            $($tag: u64,)?
            context: *mut c_void,
        ) -> isize {
            let flags = |ep: &T, _: usize| Ok(ep.tx_flags() | OpFlags::REMOTE_CQ_DATA);
            // SAFETY: the caller's promise, passed on.
            unsafe { send_one::<T>(ep, buf, len, desc, dest_addr, context, flags, data, or_zero!($($tag)?)) }
        }

        unsafe extern "C" fn inject<T: DataPath>(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            dest_addr: fi_addr_t,
            $($tag: u64,)?
        ) -> isize {
            let none = core::ptr::null_mut();
            let flags = |ep: &T, len: usize| injected(ep, What::$what, len, FI_SEND);
            // SAFETY: the caller's promise, passed on.
            unsafe { send_one::<T>(ep, buf, len, none, dest_addr, none, flags, 0, or_zero!($($tag)?)) }
        }

        unsafe extern "C" fn injectdata<T: DataPath>(
            ep: *mut fid_ep,
            buf: *const c_void,
            len: usize,
            data: u64,
            dest_addr: fi_addr_t,
            $($tag: u64,)?
        ) -> isize {
            let none = core::ptr::null_mut();
            let flags = |ep: &T, len: usize| Ok(injected(ep, What::$what, len, FI_SEND)? | OpFlags::REMOTE_CQ_DATA);
            // SAFETY: the caller's promise, passed on.
            unsafe { send_one::<T>(ep, buf, len, none, dest_addr, none, flags, data, or_zero!($($tag)?)) }
        }

        unsafe extern "C" fn sendv<T: DataPath>(
            ep: *mut fid_ep,
            iov: *const iovec,
            desc: *mut *mut c_void,
            count: usize,
            dest_addr: fi_addr_t,
            $($tag: u64,)?
            context: *mut c_void,
        ) -> isize {
            // SAFETY: as in `send_one`, for `count` buffers.
            let call = || unsafe {
                let ep = endpoint::<T>(ep)?;
                Ok((ep, several(iov, used(ep, desc), count)?.as_source()))
            };
            // SAFETY: the manual page: the caller's context is as the flags require.
            let context = unsafe { Given::new(context) };
            probe::post(ep.addr(), context.number(), dest_addr, or_zero!($($tag)?));
            status(call().and_then(|(ep, iov): (&T, _)| {
                let flags = ep.tx_flags();
                ep.transmit(&mut Tx {
                    what: What::$what,
                    iov,
                    flags,
                    dest: dest_addr,
                    context: context.with(flags),
                    data: 0,
                    tag: or_zero!($($tag)?),
                    target: &[],
                })
            }))
        }

        unsafe extern "C" fn sendmsg<T: DataPath>(
            ep: *mut fid_ep,
            msg: *const $msg,
            flags: u64,
        ) -> isize {
            if msg.is_null() {
                return Error::INVAL.negative() as isize;
            }
            // SAFETY: as in `send_one`; `msg` is readable during the call.
            let call = || unsafe {
                let ep: &T = endpoint::<T>(ep)?;
                let flags = OpFlags::from_bits_retain(flags);
                check_message_flags(ep, flags)?;
                let iov = several((*msg).msg_iov, used(ep, (*msg).desc), (*msg).iov_count)?.as_source();
                check_inject(ep, What::$what, flags, iov.remaining())?;
                let flags = flags | ep.tx_implied();
                let tx = Tx {
                    what: What::$what,
                    iov,
                    flags,
                    dest: (*msg).addr,
                    context: Given::new((*msg).context).with(flags),
                    data: (*msg).data,
                    tag: or_zero!($((*msg).$tag)?),
                    target: &[],
                };
                Ok((ep, tx))
            };
            let place = ep.addr();
            status(call().and_then(|(ep, mut tx): (&T, Tx<'_>)| {
                probe::post(place, tx.context.number(), tx.dest, tx.tag);
                ep.transmit(&mut tx)
            }))
        }
    };
}

pub(super) use {message_ops, or_zero};
