// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Links the shared object with its name and version nodes, and writes the public headers.
//!
//! Each header consists of a template src/abi/<name>.h.in and the types of src/abi/<name>.rs, which cbindgen
//! translates. The table src/abi/releases.tsv lists the releases. The headers of the default release are committed in
//! include/; those of other releases are in the folder include-<interface> of the build profile. A header is
//! rewritten only if it differs.
//!
//! The library itself always has the newest ABI of the table. Additions are marked in src/abi: a line `// since 2.7`
//! before a declaration, `@since 2.7@` and `@end@` around a part of a template; `@before 2.7@` is the opposite.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use abi::release::{DEFAULT, RELEASES, Release, number};

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the package"));
    identity(&root);
    link(&root);
    let abi = root.join("src/abi");
    println!("cargo:rerun-if-changed={}", abi.display());
    println!("cargo:rerun-if-changed=cbindgen.toml");
    assert_eq!(
        env::var("CARGO_PKG_VERSION").as_deref(),
        Ok(DEFAULT.release),
        "the versions of Cargo.toml and src/abi/releases.tsv"
    );
    for release in &RELEASES {
        let folder = match release.is_default() {
            true => root.join("include"),
            false => profile_folder().join(format!("include-{}", release.interface)),
        };
        let version = named_version(release);
        headers(&root, release, version, &folder);
    }
}

/// Returns the version that the headers of a release state. For an alpha it is a guess: its headers state the previous
/// release, because fi_getinfo accepts no newer version until the release is published.
fn named_version(release: &Release) -> (u32, u32) {
    match release.state == "alpha" {
        true => number(DEFAULT.interface),
        false => number(release.interface),
    }
}

/// Returns the folder in which cargo puts the library: target/<profile>.
fn profile_folder() -> PathBuf {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names the output folder"));
    // target/<profile>/build/<package>/out
    out.ancestors().nth(3).expect("target folder").to_owned()
}

/// Sets the variables for `base::identity`: the version of this library, and the commit, which is in a file if the
/// source has no repository.
fn identity(root: &Path) {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("read Cargo.toml");
    println!("cargo:rerun-if-changed=Cargo.toml");
    let (_, own) = manifest
        .split_once("[package.metadata.ironfabric]")
        .expect("our section of Cargo.toml");
    let version = own.split('"').nth(1).expect("our version");
    println!("cargo:rustc-env=IRONFABRIC_VERSION={version}");
    let commit = given_commit(root).or_else(|| commit_of(root));
    let commit = commit.unwrap_or_else(|| "commit unknown".into());
    println!("cargo:rustc-env=IRONFABRIC_COMMIT={commit}");
}

fn given_commit(root: &Path) -> Option<String> {
    println!("cargo:rerun-if-env-changed=IRONFABRIC_COMMIT");
    println!("cargo:rerun-if-changed=.commit");
    // `git archive` fills in the file.
    let file = || fs::read_to_string(root.join(".commit")).ok();
    let given = env::var("IRONFABRIC_COMMIT").ok().or_else(file)?;
    let given = given.trim();
    (!given.is_empty() && !given.starts_with('$')).then(|| given.to_owned())
}

fn commit_of(root: &Path) -> Option<String> {
    let git = |arguments: &[&str]| {
        let done = Command::new("git")
            .arg("-C")
            .arg(root)
            .args(arguments)
            .output()
            .ok()?;
        let text = String::from_utf8(done.stdout).ok()?;
        done.status.success().then(|| text.trim().to_owned())
    };
    // A repository around a source without its own does not identify that source.
    let top = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?);
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    for path in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", path])?;
        println!("cargo:rerun-if-changed={path}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

/// The version script is the second one, after rustc's own: only lld accepts two. rustc already uses lld where it is
/// the default; the explicit option turns a wrong link elsewhere into an error.
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

/// Returns the time of the last change of any file that the headers are made of.
fn newest_input(root: &Path) -> SystemTime {
    let abi = fs::read_dir(root.join("src/abi")).expect("read src/abi");
    let abi = abi.map(|entry| entry.expect("read src/abi").path());
    ["build.rs", "cbindgen.toml"]
        .map(|name| root.join(name))
        .into_iter()
        .chain(abi)
        .map(|file| fs::metadata(file).and_then(|found| found.modified()))
        .map(|time| time.expect("the time of a source"))
        .max()
        .expect("there are sources")
}

/// Modules whose headers are for providers and lie in include/rdma/providers; all others lie in include/rdma.
const PROVIDER_HEADERS: [&str; 3] = ["fi_log", "fi_peer", "fi_prov"];

/// Writes the headers of one release into `folder`.
fn headers(root: &Path, release: &Release, version: (u32, u32), folder: &Path) {
    let newest = newest_input(root);
    let modules = modules(&root.join("src/abi"), release, version);
    for module in &modules {
        let mut header = module.template.clone();
        if header.contains("@TYPES@") {
            header = header.replace("@TYPES@\n", &types(root, module, &modules));
        }
        let folder = match PROVIDER_HEADERS.contains(&module.name.as_str()) {
            true => folder.join("rdma/providers"),
            false => folder.join("rdma"),
        };
        let path = folder.join(format!("{}.h", module.name));
        println!("cargo:rerun-if-changed={}", path.display());
        if fs::read_to_string(&path).ok().as_ref() != Some(&header) {
            fs::create_dir_all(folder).expect("make the include folder");
            fs::write(&path, header).expect("write the header");
            // Cargo would run this script again for a file that is newer than the run which wrote it.
            let written = fs::File::options().append(true).open(&path);
            let backdated = written.and_then(|file| file.set_modified(newest));
            backdated.expect("set the time of the header");
        }
    }
}

/// Returns the part of a source that the release has, without the marks. The interface number that the library takes
/// from the table is replaced by `named`, the number that the headers of this release state.
fn source_of(release: &Release, named: (u32, u32), text: &str) -> String {
    let version = number(release.interface);
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.trim_start().strip_prefix("// since ") {
            Some(since) if number(since) > version => skip_declaration(&mut lines),
            Some(_) => {}
            None => kept += &format!("{line}\n"),
        }
    }
    kept.replace("= release::MAJOR;", &format!("= {};", named.0))
        .replace("= release::MINOR;", &format!("= {};", named.1))
}

/// Skips comments, attributes and the declaration that follows, to the line on which all its brackets are closed.
fn skip_declaration<'a>(lines: &mut impl Iterator<Item = &'a str>) {
    let mut depth = 0;
    for line in lines {
        let line = line.trim_start();
        if line.starts_with("//") || line.starts_with("#[") {
            continue;
        }
        for c in line.replace("->", "").replace("<<", "").chars() {
            match c {
                '(' | '{' | '[' | '<' => depth += 1,
                ')' | '}' | ']' | '>' => depth -= 1,
                _ => {}
            }
        }
        if depth == 0 && line.ends_with([';', ',', '}']) {
            return;
        }
    }
}

/// Returns the parts of a template that the release has, without the marks. A mark on the first line applies to the
/// whole template and has no end; other marks are not nested.
fn template_of(release: &Release, text: &str) -> String {
    let version = number(release.interface);
    let mut kept = String::new();
    let first = text
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("@since "));
    if first.is_some_and(|since| number(since.trim_end_matches('@')) > version) {
        return kept;
    }
    let mut dropped = false;
    for line in text.lines() {
        if let Some(since) = line.strip_prefix("@since ") {
            dropped = number(since.trim_end_matches('@')) > version;
        } else if let Some(before) = line.strip_prefix("@before ") {
            dropped = number(before.trim_end_matches('@')) <= version;
        } else if line == "@end@" {
            dropped = false;
        } else if !dropped {
            kept += &format!("{line}\n");
        }
    }
    kept.replace("@NODE@", release.node)
}

/// One file of src/abi that has a header.
struct Module {
    name: String,
    template: String,
    source: String,
    types: Vec<Type>,
}

/// A declaration for C: `struct fi_info`, or a typedef if `kind` is "type".
struct Type {
    kind: &'static str,
    name: String,
}

impl Type {
    fn tagged(&self) -> String {
        format!("{} {}", self.kind, self.name)
    }
}

/// Returns the modules of one release. The template of a header that a later release adds begins with its mark.
fn modules(abi: &Path, release: &Release, version: (u32, u32)) -> Vec<Module> {
    let mut names: Vec<String> = fs::read_dir(abi)
        .expect("read src/abi")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|file| file.strip_suffix(".h.in").map(str::to_owned))
        .collect();
    names.sort();
    let read = |name: String| {
        let file = |suffix| fs::read_to_string(abi.join(format!("{name}.{suffix}")));
        let template = template_of(release, &file("h.in").expect("read the template"));
        if template.is_empty() {
            return None;
        }
        // A header with functions only has no module. cbindgen does not expand macros, so the enum is taken out of its
        // `c_enum!` call.
        let source = source_of(release, version, &file("rs").unwrap_or_default())
            .replace("\nc_enum! {\n", "\n#[repr(C)]\n")
            .replace("\n    }\n}\n", "\n    }\n");
        let types = source.lines().filter_map(declaration).collect();
        Some(Module {
            name,
            template,
            source,
            types,
        })
    };
    names.into_iter().filter_map(read).collect()
}

/// Returns the type that this line declares.
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

/// Returns the declarations of one module in C.
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

/// Declares the structs that the text points to: a struct that first appears in a parameter list would be local to it.
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

/// Moves a union named `<struct>_<member>` back into its struct, as in C. A member called `anonymous` has no name
/// there.
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

/// Applies formatting for which cbindgen has no setting: short comments on one line, constants without gaps, `(-5)`,
/// `data[]`.
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
