// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Links the shared object with its name and version nodes, and writes the public headers.
//!
//! A header is a template src/abi/<name>.h.in around the types of src/abi/<name>.rs, which cbindgen translates. The
//! result is committed: it is rewritten when, and only when, it differs.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package"));
    link(&root);
    tools();
    headers(&root);
}

/// The version script comes second, after rustc's own: only lld accepts that. rustc uses lld already where it is the
/// default; saying it turns a wrong link elsewhere into an error.
fn link(root: &Path) {
    let map = root.join("src/abi/libfabric.map");
    println!("cargo:rerun-if-changed={}", map.display());
    println!("cargo:rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libfabric.so.1");
    println!(
        "cargo:rustc-cdylib-link-arg=-Wl,--version-script={}",
        map.display()
    );
}

/// The programs of src/bin use the shared library as any program does. Cargo gives a bin no order after a cdylib of its
/// package, so they are built by a second call with `--features tools`.
fn tools() {
    if env::var_os("CARGO_FEATURE_TOOLS").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    // target/<profile>/build/<package>/out
    let built = out.ancestors().nth(3).expect("target folder");
    println!("cargo:rustc-link-arg-bins=-L{}", built.display());
    println!("cargo:rustc-link-arg-bins=-lfabric");
    println!("cargo:rustc-link-arg-bins=-Wl,-rpath,$ORIGIN:$ORIGIN/../lib:$ORIGIN/../lib64");
}

/// Modules whose headers are for providers; all others lie in include/rdma itself.
const PROVIDER_HEADERS: [&str; 3] = ["fi_log", "fi_peer", "fi_prov"];

fn headers(root: &Path) {
    let abi = root.join("src/abi");
    println!("cargo:rerun-if-changed={}", abi.display());
    println!("cargo:rerun-if-changed=cbindgen.toml");
    println!("cargo:rerun-if-changed=include");

    let modules = modules(&abi);
    for module in &modules {
        let template = fs::read_to_string(abi.join(format!("{}.h.in", module.name)))
            .unwrap_or_else(|error| panic!("{}.h.in: {error}", module.name));
        let header = template.replace("@TYPES@\n", &types(root, module, &modules));
        let folder = match PROVIDER_HEADERS.contains(&module.name.as_str()) {
            true => "include/rdma/providers",
            false => "include/rdma",
        };
        let path = root.join(folder).join(format!("{}.h", module.name));
        if fs::read_to_string(&path).ok().as_ref() != Some(&header) {
            fs::create_dir_all(root.join(folder)).expect("make the include folder");
            fs::write(&path, header).expect("write the header");
        }
    }
}

/// One file of src/abi that has a header.
struct Module {
    name: String,
    source: String,
    types: Vec<Type>,
}

/// A declaration that C sees: `struct fi_info`, or a typedef where `kind` is "type".
struct Type {
    kind: &'static str,
    name: String,
}

impl Type {
    fn tagged(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

fn modules(abi: &Path) -> Vec<Module> {
    let mut names: Vec<String> = fs::read_dir(abi)
        .expect("read src/abi")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".h.in").map(str::to_owned))
        .collect();
    names.sort();
    let read = |name: String| {
        // cbindgen does not expand macros: take the enum out of its `c_enum!` call.
        let source = fs::read_to_string(abi.join(format!("{name}.rs")))
            .expect("a template has its module")
            .replace("\nc_enum! {\n", "\n#[repr(C)]\n")
            .replace("\n    }\n}\n", "\n    }\n");
        let types = source.lines().filter_map(declaration).collect();
        Module {
            name,
            source,
            types,
        }
    };
    names.into_iter().map(read).collect()
}

/// The type that this line declares.
fn declaration(line: &str) -> Option<Type> {
    let line = line.trim_start().strip_prefix("pub ")?;
    let kind = ["struct", "union", "enum", "type"]
        .into_iter()
        .find(|kind| line.starts_with(&format!("{kind} ")))?;
    let rest = &line[kind.len() + 1..];
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let name = rest[..end].to_owned();
    Some(Type { kind, name })
}

/// The declarations of one module in C.
fn types(root: &Path, module: &Module, all: &[Module]) -> String {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    let source = out.join(format!("{}.rs", module.name));
    fs::write(&source, &module.source).expect("write the copy for cbindgen");

    let mut config =
        cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("read cbindgen.toml");
    config.export.include = module.types.iter().map(|t| t.name.clone()).collect();
    let foreign = all.iter().filter(|other| other.name != module.name);
    for t in foreign.flat_map(|m| &m.types).filter(|t| t.kind != "type") {
        config.export.rename.insert(t.name.clone(), t.tagged());
    }
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_config(config)
        .with_src(&source)
        .generate()
        .unwrap_or_else(|error| panic!("{}.rs: {error}", module.name))
        .write(&mut text);
    let text = String::from_utf8(text).expect("C text");
    let text = shorten(&nest_unions(text.trim_start(), module));
    forward(&text, module, all) + &text
}

/// Names the structs that the text points to: a struct first seen in a parameter list would be local to it.
fn forward(text: &str, module: &Module, all: &[Module]) -> String {
    let structs = all.iter().flat_map(|m| m.types.iter().map(move |t| (m, t)));
    let mut lines: Vec<String> = structs
        .filter(|(_, t)| t.kind == "struct")
        .filter(|(m, t)| m.name == module.name || text.contains(&format!("struct {} *", t.name)))
        .map(|(_, t)| format!("struct {};\n", t.name))
        .collect();
    lines.sort();
    match lines.is_empty() {
        true => String::new(),
        false => lines.concat() + "\n",
    }
}

/// Puts a union named `<struct>_<member>` back into its struct, where C has it; one called `anonymous` has no name.
fn nest_unions(text: &str, module: &Module) -> String {
    let mut text = text.to_owned();
    for t in module.types.iter().filter(|t| t.kind == "union") {
        let open = format!("{} {{\n", t.tagged());
        let start = text.find(&open).expect("cbindgen wrote the union");
        let end = start + text[start..].find("};\n\n").expect("a union ends");
        let body = text[start + open.len()..end].replace("\n    ", "\n        ");
        text.replace_range(start..end + "};\n\n".len(), "");

        let (before, after) = text
            .split_once(&format!("{} ", t.tagged()))
            .expect("its struct has the union");
        let (member, after) = after.split_once(';').expect("a member ends");
        let member = match member {
            "anonymous" => String::new(),
            name => format!(" {name}"),
        };
        let nested = format!(
            "union {{\n    {}    }}{member};",
            body.trim_end_matches(' ')
        );
        text = format!("{before}{nested}{after}");
    }
    text
}

/// What cbindgen has no setting for: short comments on one line, constants without gaps, `(-5)`, `data[]`.
fn shorten(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let line = line.replace("[0];", "[];");
        let negative = line.starts_with("#define ") && line.contains(" -");
        let line = match line.split_once(" -") {
            Some((name, value)) if negative => format!("{name} (-{value})"),
            _ => line,
        };
        let n = lines.len();
        if line.trim() == "*/" && n >= 2 && lines[n - 2].trim() == "/**" {
            let words = lines.pop().expect("two lines are there");
            let words = words.trim().trim_start_matches("* ");
            let opening = lines.last_mut().expect("one line is there");
            *opening = format!("{opening} {words} */");
            continue;
        }
        let define = line.starts_with("#define ");
        if define && n >= 2 && lines[n - 1].is_empty() && lines[n - 2].starts_with("#define ") {
            lines.pop();
        }
        lines.push(line);
    }
    lines.join("\n") + "\n"
}
