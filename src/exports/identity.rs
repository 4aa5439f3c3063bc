// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `ironfabric_version` and the ELF note, by which tools identify this library, loaded or not.
//!
//! In C: `extern const char ironfabric_version[];`. Owner of the note: `ironfabric`, type 1; `readelf -n` prints it.

/// `ironfabric VERSION (COMMIT), libfabric INTERFACE API`. `fi_info --version` prints it.
pub const TEXT: &str = concat!(
    "ironfabric ",
    env!("IRONFABRIC_VERSION"),
    " (",
    env!("IRONFABRIC_COMMIT"),
    "), libfabric ",
    env!("CARGO_PKG_VERSION_MAJOR"),
    ".",
    env!("CARGO_PKG_VERSION_MINOR"),
    " API"
);

/// [`TEXT`], with a zero at the end.
#[repr(C)]
pub struct Text([u8; TEXT.len() + 1]);

const fn text() -> Text {
    let mut bytes = [0; TEXT.len() + 1];
    let mut i = 0;
    while i < TEXT.len() {
        bytes[i] = TEXT.as_bytes()[i];
        i += 1;
    }
    Text(bytes)
}

/// The identity of this library as a C string.
#[unsafe(no_mangle)]
#[used]
pub static ironfabric_version: Text = text();
symver!(ironfabric_version @@ "FABRIC_RS_1.0");

/// An entry of a note section: elf(5), Elf64_Nhdr, followed by owner and text.
#[repr(C, align(4))]
struct Note {
    owner_size: u32,
    text_size: u32,
    kind: u32,
    owner: [u8; OWNER.len().next_multiple_of(4)],
    text: Text,
}

const OWNER: &[u8; 11] = b"ironfabric\0";

#[used]
// SAFETY: a section that is loaded, never written, and has no other content.
#[unsafe(link_section = ".note.ironfabric")]
static NOTE: Note = Note {
    owner_size: OWNER.len() as u32,
    text_size: (TEXT.len() + 1) as u32,
    kind: 1,
    owner: *b"ironfabric\0\0",
    text: text(),
};
