-- SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
-- A filter of pandoc: what its man writer does in a way that mandoc warns of is written otherwise. Code becomes bold,
-- as names of calls and constants are in manual pages; programs become .EX blocks.

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
    local lines = { ".PP", ".EX" }
    for line in (element.text .. "\n"):gmatch("(.-)\n") do
        table.insert(lines, line == "" and ".sp" or escaped(line))
    end
    table.insert(lines, ".EE")
    return pandoc.RawBlock("man", table.concat(lines, "\n"))
end

-- Comments for programs that write parts of a page.
function RawBlock(element)
    if element.format == "html" then return {} end
end

-- pandoc gives columns widths only where lines of the source are long, and without them tbl makes tables narrow. A
-- column that needs less than its share of the line gets what it needs, the others what is left.
function Table(element)
    local needs, words, count = {}, {}, #element.colspecs
    local function look(rows)
        for _, row in ipairs(rows) do
            for index, cell in ipairs(row.cells) do
                local text = pandoc.utils.stringify(cell.contents)
                needs[index] = math.max(needs[index] or 1, #text)
                for word in text:gmatch("%S+") do words[index] = math.max(words[index] or 1, #word) end
            end
        end
    end
    look(element.head.rows)
    for _, body in ipairs(element.bodies) do look(body.body) end

    local left, open, total = 68 - 3 * (count - 1), count, 0
    for index = 1, count do total = total + (needs[index] or 1) end
    if total <= left then return nil end
    local widths, settled = {}, true
    while settled and open > 0 do
        settled = false
        local share = left / open
        for index = 1, count do
            local need = needs[index] <= share and needs[index] or words[index] > share and words[index]
            if not widths[index] and need then
                widths[index], left, open, settled = need, left - need, open - 1, true
                break
            end
        end
    end
    for index, column in ipairs(element.colspecs) do
        element.colspecs[index] = { column[1], (widths[index] or math.floor(left / open)) / 70 }
    end
    return element
end
