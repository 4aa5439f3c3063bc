#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Reads the book as a person does, in Chromium without a screen: clicks every entry of the table of contents, follows
every link of every page that leads to another page of the book, and searches.

    browse_book.py BOOK-FOLDER SCREENSHOT-FOLDER [CHROMIUM]

Needs playwright from PyPI, which drives a Chromium that is there. The pages are served on loopback.
"""

import functools
import http.server
import sys
import threading
from pathlib import Path

from playwright.sync_api import TimeoutError, sync_playwright

# A word, and a page that the search must find for it.
SEARCHES = (("epoll", "epoll.html"), ("Docker", "containers.html"), ("FI_SHM_RING_SIZE", "settings.html"),
            ("mtl_ofi_provider_include", "mpi.html"), ("FI_EKEYREJECTED", "errors.html"),
            ("timeout", "settings-words.html"), ("hang", "hangs.html"), ("FI_ORDER_SAW", "man/fi_endpoint.3.html"))


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder):
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}/"


def main():
    book, shots = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    chromium = sys.argv[3] if len(sys.argv) > 3 else "/usr/bin/chromium"
    shots.mkdir(parents=True, exist_ok=True)
    root, wrong, seen = serve(book), [], set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: script: {error}"))
        page.on("response", lambda answer: answer.status >= 400 and wrong.append(f"{answer.url}: {answer.status}"))

        page.goto(root)
        page.wait_for_selector(".sidebar a")
        page.screenshot(path=shots / "start.png")

        # The table of contents, by clicking.
        entries = page.locator(".sidebar ol.chapter a[href]:not(.header-in-summary)").evaluate_all(
            "links => links.map(link => link.href.split('#')[0])")
        entries = list(dict.fromkeys(entries))
        if len(entries) < 20:
            wrong.append(f"the table of contents has {len(entries)} entries")
        for href in entries:
            page.goto(root)
            page.locator(f".sidebar a[href='{href}'], .sidebar a[href='{href.removeprefix(root)}']").first.click()
            page.wait_for_load_state()
            if page.url.split("#")[0] != href and not (href == root + "index.html" and page.url == root):
                wrong.append(f"a click on {href} leads to {page.url}")
            if not page.locator("main h1").count():
                wrong.append(f"{href}: no title")
            seen.add(href)

        # Links in the text, each once. If a link names a place in a page, the page must have that place.
        links = set()
        for href in entries:
            page.goto(href)
            found = page.locator("main a[href]:not(.header)")
            links |= set(found.evaluate_all("links => links.map(link => link.href)"))
        inside = sorted(link for link in links if link.startswith(root))
        for link in inside:
            answer = page.goto(link)
            if answer and not answer.ok:
                wrong.append(f"{link}: {answer.status}")
            elif "#" in link and not page.evaluate(
                    "!!document.getElementById(decodeURIComponent(location.hash.slice(1)))"):
                wrong.append(f"{link}: no such place")

        for word, target in SEARCHES:
            page.goto(root)
            page.keyboard.press("s")
            page.wait_for_selector("#mdbook-searchbar", state="visible")
            page.keyboard.type(word)
            found = f"#mdbook-searchresults a[href*='{target}']"
            # All results of a search, as soon as the expected one is there.
            try:
                page.wait_for_selector(found, timeout=10000)
            except TimeoutError:
                wrong.append(f"a search for {word} does not find {target}")
                continue
            if word == "epoll":
                page.screenshot(path=shots / "search.png")
            page.locator(found).first.click()
            page.wait_for_load_state()
            if target not in page.url:
                wrong.append(f"the found {target} leads to {page.url}")
        browser.close()
    for line in sorted(set(wrong)):
        print(f"WRONG: {line}")
    print(f"in a browser: {len(seen)} chapters, {len(inside)} links, {len(SEARCHES)} searches, "
          f"{len(set(wrong))} things wrong")
    return 1 if wrong else 0


sys.exit(main())
