-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
-- A filter of pandoc: what its man writer does in a way that mandoc warns of is written otherwise. Code becomes bold, as
-- names of calls and constants are in manual pages; programs become .EX blocks.

function Code(element)
    return pandoc.Strong({ pandoc.Str(element.text) })
end

-- Bold within bold is bold.
function Strong(element)
    return pandoc.Strong(pandoc.walk_block(pandoc.Plain(element.content), {
        Strong = function(inner) return inner.content end,
    }).content)
end

local function escaped(line)
    line = line:gsub("\\", "\\e"):gsub("%-", "\\-")
    if line:match("^[.']") then line = "\\&" .. line end
    return line
end

function CodeBlock(element)
    local lines = { ".RS 4", ".EX" }
    for line in (element.text .. "\n"):gmatch("(.-)\n") do
        table.insert(lines, line == "" and ".sp" or escaped(line))
    end
    table.insert(lines, ".EE")
    table.insert(lines, ".RE")
    return pandoc.RawBlock("man", table.concat(lines, "\n"))
end

-- Comments for programs that write parts of a page.
function RawBlock(element)
    if element.format == "html" then return {} end
end
