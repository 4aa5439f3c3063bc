#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""inline.py LIBRARY: every inline function of the headers against the symbol of its name.

Reads the headers, writes a C program with an object whose tables record what is called with which arguments, calls each
inline function and its symbol in the same situations, and compares the records. The symbol is also called with a null
object, null tables and null members, where the C text would crash: it answers -FI_EINVAL and -FI_ENOSYS.

With `--print`, prints the records of the inline functions, one line per call: two header trees can be compared by it.
"""
import os
import re
import subprocess
import sys
import tempfile

from abi import HEADERS, INCLUDE, ROOT, Headers, is_pointer

args = [a for a in sys.argv[1:] if a != "--print"]
library, include = args[0], INCLUDE
# These call named functions of the library instead of a table; they are in ctests/inline_named.c.
NAMED = {"fi_allocinfo", "fi_import", "fi_import_log", "fi_param_get_str", "fi_param_get_int", "fi_param_get_bool",
         "fi_param_get_size_t"}
# These need no object.
PURE = {"fi_tc_dscp_set", "fi_tc_dscp_get", "fi_hmem_ze_device", "fi_rx_addr", "fi_group_addr", "fi_tag_mpi"}
# These read a member of the object; the value is the result for a null object.
FIELDS = {"fi_mr_desc": "NULL", "fi_mr_key": "FI_KEY_NOTAVAIL", "fi_mc_addr": "FI_ADDR_NOTAVAIL"}


headers = Headers()
text, functions, tables, objects = headers.text, headers.functions, headers.tables, headers.objects

C = []
C.append("#define _GNU_SOURCE\n#include <dlfcn.h>\n#include <stdarg.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>")
C += [f"#include <{h}>" for h in HEADERS]
C.append(r"""
static char text[4096], arena[16][256];
static union { struct fid fid; char bytes[512]; } object;
static long answer;

static void note(const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + used, sizeof(text) - used, format, args);
    va_end(args);
}

static void note_pointer(const void *pointer)
{
    const char *p = pointer;

    if (!p)
        note(" null");
    else if (p >= object.bytes && p < object.bytes + sizeof(object))
        note(" object+%d", (int) (p - object.bytes));
    else if (p >= arena[0] && p < arena[0] + sizeof(arena))
        note(" arg%d+%d", (int) (p - arena[0]) / 256, (int) (p - arena[0]) % 256);
    else
        note(" own");
}

/* The struct that an inline function builds for a command. */
static void note_command(int command, void *arg)
{
    switch (command) {
    case FI_ALIAS: {
        struct fi_alias *alias = arg;
        note(" {"); note_pointer(alias->fid); note(" %llx }", (long long) alias->flags);
        if (!answer)
            *alias->fid = &object.fid;
        break;
    }
    case FI_GET_VAL: case FI_SET_VAL: {
        struct fi_fid_var *var = arg;
        note(" { %d", var->name); note_pointer(var->val); note(" }");
        break;
    }
    case FI_GET_RAW_MR: {
        struct fi_mr_raw_attr *raw = arg;
        note(" { %llx", (long long) raw->flags); note_pointer(raw->base_addr); note_pointer(raw->raw_key);
        note_pointer(raw->key_size); note(" }");
        break;
    }
    case FI_MAP_RAW_MR: {
        struct fi_mr_map_raw *map = arg;
        note(" { %llx %llx", (long long) map->flags, (long long) map->base_addr); note_pointer(map->raw_key);
        note(" %zx", map->key_size); note_pointer(map->key); note(" }");
        break;
    }
    case FI_UNMAP_KEY:
        note(" { %llx }", *(long long *) arg);
        break;
    case FI_REFRESH: {
        struct fi_mr_modify modify, *given = arg;
        note(" { %llx", (long long) given->flags); note_pointer(given->attr.mr_iov);
        note(" %zx", given->attr.iov_count);
        memset(&modify, 0, sizeof(modify));
        modify.flags = given->flags;
        modify.attr.mr_iov = given->attr.mr_iov;
        modify.attr.iov_count = given->attr.iov_count;
        note(memcmp(&modify, given, sizeof(modify)) ? " more }" : " }");
        break;
    }
    case FI_EXPORT_FID: {
        struct fi_fid_export *exported = arg;
        note(" {"); note_pointer(exported->fid); note(" %llx", (long long) exported->flags);
        note_pointer(exported->context); note(" }");
        break;
    }
    }
}
""")


reached = {"fi_ops"} | {table for members in objects.values() for table, _ in members}
for table, slots in tables.items():
    if table not in reached:
        continue
    for ret, name, ps in slots:
        C.append(f"static {ret} mock_{table}_{name}({', '.join(p[2] for p in ps) or 'void'})\n{{")
        C.append(f'    note(" {table}.{name}(");')
        for kind, arg, _ in ps:
            C.append(f"    note_pointer((const void *) (uintptr_t) {arg});" if is_pointer(kind)
                     else f'    note(" %llx", (long long) {arg});')
        if (table, name) == ("fi_ops", "control"):
            C.append("    note_command(command, arg);")
        if (table, name) == ("fi_ops", "ops_open"):
            C.append('    note(" %s", name);\n    if (!answer)\n        *ops = arena[5] + 24;')
        if (table, name) == ("fi_ops_cm", "join"):
            C.append("    if (flags & FI_COLLECTIVE) {\n        const struct fi_collective_addr *to = addr;\n"
                     '        note(" {"); note_pointer(to->set); note(" %llx }", (long long) to->coll_addr);\n    }')
        if (table, name) == ("fi_ops_cq", "readerr"):
            C.append('    if (buf)\n        note(" { %llx }", (long long) buf->src_addr);')
        if (table, name) == ("fi_profile_ops", "read_var"):
            C.append('    note(" { %zx }", *size);')
        C.append('    note(" )");')
        if ret != "void":
            C.append(f"    return ({ret}) {'(uintptr_t) ' if '*' in ret else ''}answer;")
        C.append("}")
    C.append(f"static struct {table} full_{table} = {{ sizeof(struct {table}), "
             + ", ".join(f"mock_{table}_{s[1]}" for s in slots) + " };")
    C.append(f"static struct {table} empty_{table} = {{ .size = sizeof(struct {table}) }};")
    C.append(f"static struct {table} short_{table};")
C.append("enum { FULL, EMPTY, SHORT, NONE };")
for fid in objects:
    C.append(f"static void make_{fid}(int how)\n{{\n    struct {fid} *it = (void *) &object;\n")
    C.append("    memset(&object, 0, sizeof(object));\n    memset(arena, 0, sizeof(arena));\n    text[0] = 0;")
    if fid == "fid_mr":
        C.append("    it->mem_desc = arena[7];\n    it->key = 0x1234567890abcdef;")
    if fid == "fid_mc":
        C.append("    it->fi_addr = 0x1234567890abcdef;")
    head = "ep_fid.fid" if fid == "fid_peer_srx" else "fid" if fid != "fid" else None
    members = [("fi_ops", f"{head}.ops" if head else "ops")] + [m for m in objects[fid] if fid != "fid"]
    for table, member in members:
        C.append(f"    it->{member} = how == FULL ? &full_{table} : how == EMPTY ? &empty_{table} : "
                 f"how == SHORT ? &short_{table} : NULL;")
    C.append("}")

C.append(r"""
static int differences, calls;
static char first[4096];

static void compare(const char *name, const char *where)
{
    calls++;
    if (strcmp(first, text)) {
        differences++;
        printf("%s, %s:\n  inline %s\n  symbol %s\n", name, where, first, text);
    }
}
""")

NUMBERS = {"int": "0x12", "uint8_t": "0x2a", "size_t": "{0}0", "uint64_t": "0x4{0}00000000ull", "uint32_t": "0x31{0}",
           "fi_addr_t": "0x5{0}", "enum": "3"}


def value(number, kind, name, flags):
    if is_pointer(kind):
        return f"(void *) arena[{number}]"
    if name == "flags":
        return flags
    return NUMBERS["enum" if "enum" in kind else kind.replace("const", "").strip()].format(number)


def result(ret, name):
    if ret == "void":
        return f"        {name};"
    return (f"        const void *ret = {name};\n        note(\" =\");\n        note_pointer(ret);" if "*" in ret else
            f"        {ret} ret = {name};\n        note(\" = %llx\", (long long) ret);")


C.append("int main(int argc, char **argv)\n{")
C.append("    void *library = dlopen(argv[1], RTLD_NOW);\n    int print = argc > 2;\n")
C.append('    if (!library) {\n        puts(dlerror());\n        return 1;\n    }')
tested = 0
for ret, name, ps in functions:
    if name in NAMED:
        continue
    tested += 1
    C.append(f'    {{\n    __typeof__({name}) *symbol = (__typeof__({name}) *) dlsym(library, "{name}");')
    C.append(f'    if (!symbol && !print) {{\n        puts("{name} is not exported");\n        differences++;\n    }}')
    if name in PURE:
        for numbers in (["0"] * 3, ["1", "5", "8"], ["0x7f", "0xfe", "0x20"], ["0xff", "3", "63"]):
            call = "(" + ", ".join(numbers[:len(ps)]) + ")"
            C.append(f'    calls++;\n    if (print)\n        printf("{name}%s = %llx\\n", "{call}", (long long) {name}{call});\n'
                     f'    else if (symbol && symbol{call} != {name}{call}) {{\n        differences++;\n        puts("{name}{call}");\n    }}\n')
        C.append("    }")
        continue
    kind = re.search(r"struct (fid\w*)", ps[0][2])
    fid = "fid_ep" if not kind or kind.group(1) == "fid" else kind.group(1)
    flags = ["0x80", "0"] if any(p[1] == "flags" for p in ps) else ["0x80"]
    situations = [("FULL", a, f) for f in flags for a in ("0", "7", "-5")]
    guarded = re.search(rf"\b{name}\([^{{]*\)\s*\{{[^}}]*FI_CHECK_OP", text) is not None or name == "fi_join_collective"
    if guarded:
        situations += [(how, "0", "0x80") for how in ("EMPTY", "SHORT", "NONE")]
    for how, answer, flag in situations:
        values = ["(void *) &object"] + [value(n, k, a, flag) for n, (k, a, _) in enumerate(ps) if n]
        where = f"{how} {answer} {flag}"
        for callee, after in ((name, 'strcpy(first, text);\n    if (print)\n        printf("%s, %s:%s\\n", "{0}", "{1}", text);'), ("symbol", 'compare("{0}", "{1}");')):
            C.append(f"    if ({'!print && symbol' if callee == 'symbol' else '1'}) {{\n        answer = {answer};\n        make_{fid}({how});")
            C.append(result(ret, f"{callee}({', '.join(values)})"))
            C.append('        note(" leaves");\n        for (int i = 1; i < 10; i++) {\n            if (*(void **) arena[i])\n'
                     '                note(" arg%d", i), note_pointer(*(void **) arena[i]);\n        }')
            C.append("    " + after.format(name, where) + "\n    }")
    # Cases in which the C text would crash.
    null = FIELDS.get(name) or ("NULL" if "*" in ret else "0" if ret == "uint64_t" else "-FI_EINVAL")
    nosys = "NULL" if "*" in ret else "0" if ret == "uint64_t" else "-FI_ENOSYS"
    for how, want in [("null object", null)] + ([] if name in FIELDS else [("EMPTY", nosys), ("NONE", nosys)]):
        first = "NULL" if how == "null object" else "(void *) &object"
        values = [first] + [value(n, k, a, "0") for n, (k, a, _) in enumerate(ps) if n]
        C.append(f"    if (!print && symbol) {{\n        make_{fid}({'FULL' if first == 'NULL' else how});\n        calls++;")
        call = f"symbol({', '.join(values)})"
        C.append(f"        {call};\n    }}" if ret == "void" else
                 f'        if ({call} != ({ret}) {want}) {{\n            differences++;\n            puts("{name}, {how}: not {want}");\n        }}\n    }}')
    C.append("    }")
C.append(f'    if (!print)\n        printf("{tested} inline functions, %d calls, %d differences\\n", calls, differences);\n'
         "    return differences != 0;\n}")

with tempfile.TemporaryDirectory() as folder:
    source, program = os.path.join(folder, "inline.c"), os.path.join(folder, "inline")
    with open(source, "w") as file:
        file.write("\n".join(C) + "\n")
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter",
                    "-Wno-deprecated-declarations", "-Wno-unused-function", "-I", include, "-o", program, source, "-ldl",
                    library], check=True)
    environment = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(os.path.abspath(library)))
    done = subprocess.run([program, os.path.abspath(library)] + ["print"] * ("--print" in sys.argv), env=environment)
    sys.exit(done.returncode)
