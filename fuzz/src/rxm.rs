// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Packets and connection data of ofi_rxm. A decoded packet must be encoded as the same bytes.

use prov::rxm::proto::*;

pub fn rxm(data: &[u8]) {
    if let Ok(request) = Request::decode(data) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Some(response) = Response::decode(data) {
        assert_eq!(Response::decode(&response.encode()), Some(response));
    }
    let reason = reason_of(data);
    assert_eq!(reason_of(&reject(reason)), reason);
    let Ok(Packet { conn, body }) = decode(data) else {
        return;
    };
    let bytes = match body {
        Body::Eager(message, bytes) => [&message.eager(conn)[..], bytes].concat(),
        Body::Segment(segment, message, bytes) => {
            [&message.segment(conn, &segment)[..], bytes].concat()
        }
        Body::Request {
            msg,
            message,
            places,
        } => message.request(conn, msg, &places).to_vec(),
        Body::Addresses { msg, places } => places.addresses(conn, msg).to_vec(),
        Body::ReadDone { msg } => short(conn, msg, true).to_vec(),
        Body::WriteDone { msg } => short(conn, msg, false).to_vec(),
        Body::Atomic { msg, request } => {
            let head = request.head.request(conn, msg, request.target.list());
            [&head.expect("its own target")[..], request.operands].concat()
        }
        Body::Credit { count } => credit(conn, count).to_vec(),
        Body::AtomicResponse { .. } => return,
    };
    let again = decode(&bytes);
    assert_eq!(again, Ok(Packet { conn, body }));
}
