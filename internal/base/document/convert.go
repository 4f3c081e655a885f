package document

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// root turns one document of the library into ours; nil when it is empty.
func (p *parser) root(tree *yaml.Node) *Node {
	if len(tree.Content) != 1 {
		return nil
	}
	return p.value(tree.Content[0], place{parent: p.outer})
}

// value turns one value of the library into ours. It recurses no deeper than
// Limits.Depth.
func (p *parser) value(y *yaml.Node, at place) *Node {
	p.count(y.Line, y.Column)
	if p.bad {
		return nil
	}
	first := p.byteAt(y.Line, y.Column)
	own := p.properties(y, first)
	line, column := p.outside(y.Line, y.Column)
	n := &Node{Line: line, Column: column, file: p.file, parent: at.parent, key: at.key, index: at.index}
	switch y.Kind {
	case yaml.AliasNode:
		p.report(y.Line, y.Column, "aliases (*name) are not supported; write the value out, or put text that begins with * in quotes")
	case yaml.SequenceNode, yaml.MappingNode:
		at.flow = y.Style&yaml.FlowStyle != 0
		if at.flow && !own && first != '{' && first != '[' {
			p.report(y.Line, y.Column, "a \"key: value\" in a list needs braces: [{key: value}]")
			return n
		}
		if at.depth++; at.depth > p.limits.Depth {
			p.fail(y.Line, y.Column, p.tooDeep())
			return nil
		}
		at.parent = n
		if y.Kind == yaml.MappingNode {
			n.Kind = Map
			p.fields(n, y, at)
		} else {
			n.Kind = List
			p.items(n, y, at)
		}
	case yaml.ScalarNode:
		p.scalar(n, y, at.flow)
	}
	p.comment(y)
	return n
}

// comment refuses a comment that has no space before it: the library takes the rest of ["a"]#b
// for a comment, and it is more likely a part of the value.
func (p *parser) comment(y *yaml.Node) {
	text, _, _ := strings.Cut(y.LineComment, "\n")
	if p.bad || text == "" && y.Style&blockText == 0 {
		return
	}
	for i := len(y.Content); i > 0; i = len(y.Content) {
		y = y.Content[i-1]
	}
	at := p.cursor.seek(y.Line, y.Column)
	end, ok := scalarEnd(p.src[at:], y)
	if !ok {
		return
	}
	at += end
	if y.Style&blockText == 0 {
		at += max(0, strings.Index(p.src[at:], text))
	}
	if at > 0 && strings.HasPrefix(p.src[at:], "#") && !isBlank(p.src[at-1:]) {
		line, column := placeOf(p.src[:at], at)
		p.report(line, column, "unexpected # behind a value; put the value in quotes, or a space before the # for a comment")
	}
}

func (p *parser) tooDeep() string {
	return "maps and lists are nested too deep: at most " + strconv.Itoa(p.limits.Depth) + " levels are allowed"
}

// byteAt returns the first byte of the text at a place, 0 at the end.
func (p *parser) byteAt(line, column int) byte {
	if off := p.cursor.seek(line, column); off < len(p.src) {
		return p.src[off]
	}
	return 0
}

// properties refuses an anchor or tag of a value and reports whether there is one. Of the tag "!"
// the library keeps only the place. A block map whose first key has a property has the same place
// as that key.
func (p *parser) properties(y *yaml.Node, first byte) bool {
	anchor, tag := y.Anchor != "", y.Style&yaml.TaggedStyle != 0
	if y.Kind != yaml.MappingNode || len(y.Content) == 0 || y.Content[0].Line != y.Line || y.Content[0].Column != y.Column {
		anchor, tag = anchor || first == '&', tag || first == '!'
	}
	if anchor {
		p.report(y.Line, y.Column, "anchors (&name) are not supported; write the value out, or put text that begins with & in quotes")
	}
	if tag {
		p.report(y.Line, y.Column, "tags (!name) are not supported; remove it, or put text that begins with ! in quotes")
	}
	return anchor || tag
}

// items converts the items of a list.
func (p *parser) items(n *Node, y *yaml.Node, at place) {
	n.Items = make([]*Node, 0, min(len(y.Content), p.limits.Nodes))
	for i, item := range y.Content {
		if !at.flow {
			p.below(y, item)
		}
		at.key, at.index = "", i
		v := p.value(item, at)
		if p.bad {
			return
		}
		n.Items = append(n.Items, v)
	}
}

// below refuses a value that begins further left than its map or list allows; the library accepts
// that of block texts and brackets.
func (p *parser) below(y, v *yaml.Node) {
	list := v.Kind == yaml.SequenceNode && v.Style&yaml.FlowStyle == 0
	nothing := v.Kind == yaml.ScalarNode && v.Value == "" && v.Style == 0
	if !nothing && (v.Column < y.Column || v.Column == y.Column && !list) {
		p.report(v.Line, v.Column, misplaced)
	}
}

// fields converts the entries of a map.
func (p *parser) fields(n *Node, y *yaml.Node, at place) {
	keys := make(map[string]int, min(len(y.Content)/2, p.limits.Nodes))
	for i := 0; i+1 < len(y.Content); i += 2 {
		k, v := y.Content[i], y.Content[i+1]
		p.count(k.Line, k.Column)
		if p.bad {
			return
		}
		keep := p.key(y, k, at.flow) && p.hasColon(k, v, at.flow)
		at.key, at.index = k.Value, 0
		if earlier, ok := keys[k.Value]; keep && ok {
			f := n.Fields[earlier]
			p.repeated++
			p.report(k.Line, k.Column, "the key "+Quote(k.Value)+" is already given at line "+strconv.Itoa(f.Line)+", column "+strconv.Itoa(f.Column)+"; keep one of them")
			keep = false
		}
		if !at.flow && v.Line > k.Line {
			p.below(y, v)
		}
		value := p.value(v, at)
		if p.bad {
			return
		}
		if keep {
			keys[k.Value] = len(n.Fields)
			line, column := p.outside(k.Line, k.Column)
			n.Fields = append(n.Fields, Field{Key: k.Value, Line: line, Column: column, Value: value})
		}
	}
}

// key reports whether a key is acceptable: one line of text.
func (p *parser) key(y, k *yaml.Node, flow bool) bool {
	first := p.byteAt(k.Line, k.Column)
	column, message := k.Column, ""
	switch {
	case k.Kind == yaml.AliasNode, first == '&', first == '!':
		message = "anchors, aliases and tags are not supported; put the key in quotes"
	case p.complexKey(y, k, flow):
		message = "complex keys (\"? \") are not supported; write \"key: value\""
		if !flow {
			column = y.Column
		}
	case k.Kind != yaml.ScalarNode:
		message = "a list or map cannot be a key; put it in quotes"
	case k.Value == "" && k.Style == 0:
		message = "a key is missing before this; write \"key: value\""
	case len(k.Value) > maxKey:
		message = "the key " + Quote(k.Value) + " is too long: at most " + strconv.Itoa(maxKey) + " bytes are allowed"
	case k.Value == "<<":
		message = "merge keys (<<) are not supported; write the keys out"
	default:
		return p.noNUL(k)
	}
	p.report(k.Line, column, message)
	return false
}

// complexKey reports whether "?" stands before a key: in a block map the key is then right of the
// map's column; inside brackets the text before it shows.
func (p *parser) complexKey(y, k *yaml.Node, flow bool) bool {
	if !flow {
		return k.Column != y.Column && p.byteAt(y.Line, y.Column) != '&' && p.byteAt(y.Line, y.Column) != '!'
	}
	before := strings.TrimRight(p.src[p.cursor.starts[k.Line-1]:p.cursor.seek(k.Line, k.Column)], " \t")
	for line := k.Line - 1; before == "" && line > 0; line-- {
		before = strings.TrimRight(p.cursor.text(line), " \t")
		if strings.Contains(before, "#") {
			return false // the end of a comment says nothing
		}
	}
	return strings.HasSuffix(before, "?")
}

// hasColon reports whether a key inside brackets has a colon: the library reads
// {key} as {key: null}, which is mostly a mistake, such as {key:value}.
func (p *parser) hasColon(k, v *yaml.Node, flow bool) bool {
	if !flow || v.Kind != yaml.ScalarNode || v.Value != "" || v.Style != 0 || v.Anchor != "" {
		return true
	}
	rest := p.src[p.cursor.seek(k.Line, k.Column):]
	end, _ := scalarEnd(rest, k)
	rest = rest[end:]
	for rest = strings.TrimLeft(rest, " \t\n"); strings.HasPrefix(rest, "#"); rest = strings.TrimLeft(rest, " \t\n") {
		rest = rest[lineEnd(rest):]
	}
	if strings.HasPrefix(rest, ":") {
		return true
	}
	p.report(v.Line, v.Column, "the key "+Quote(k.Value)+" has no value; write \"key: value\" with a space behind the colon")
	return false
}

// blockText are the styles of block scalars.
const blockText = yaml.LiteralStyle | yaml.FoldedStyle

// scalarEnd returns the length of a scalar as it is written at the start of a text; of a block
// scalar it is that of the header without a comment. It returns false for a plain scalar of
// several lines, whose text differs from what is written.
func scalarEnd(text string, y *yaml.Node) (int, bool) {
	switch {
	case y.Style&blockText != 0:
		return len(text) - len(strings.TrimLeft(text, "|>+-0123456789")), true
	case y.Style&yaml.DoubleQuotedStyle != 0:
		return quotedEnd(text, '"'), true
	case y.Style&yaml.SingleQuotedStyle != 0:
		return quotedEnd(text, '\''), true
	}
	return min(len(y.Value), len(text)), strings.HasPrefix(text, y.Value)
}

// quotedEnd returns the length of the quoted scalar at the start of a text.
func quotedEnd(text string, quote byte) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\' && quote == '"':
			i++
		case text[i] == quote && quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		case text[i] == quote:
			return i + 1
		}
	}
	return len(text)
}

// scalar fills a scalar's node.
func (p *parser) scalar(n *Node, y *yaml.Node, flow bool) {
	n.Kind, n.Text = Scalar, y.Value
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|blockText) == 0 {
		n.Kind, n.Type = resolve(y.Value)
		if flow && strings.HasSuffix(y.Value, ":") {
			p.report(y.Line, y.Column, "a \":\" without a value; put the text in quotes, or a value behind the colon")
		}
	}
	if len(y.Value) > p.limits.Scalar {
		p.fail(y.Line, y.Column, "this text is too long: at most "+bytesText(p.limits.Scalar)+" are allowed in one value")
	}
	p.noNUL(y)
	if y.Style&yaml.LiteralStyle != 0 && !p.origin.fixed {
		n.block = p.blockOrigin(y)
	}
}

// noNUL refuses an escape such as "\0": it would end the text for programs that get it.
func (p *parser) noNUL(y *yaml.Node) bool {
	if strings.IndexByte(y.Value, 0) < 0 {
		return true
	}
	p.report(y.Line, y.Column, "this text holds a NUL character; remove the escape that stands for it")
	return false
}

// blockOrigin returns where the text of a literal block scalar starts. Its indentation is that of
// the first line of text in the file, less what the text itself has.
func (p *parser) blockOrigin(y *yaml.Node) origin {
	indent, line := 0, y.Line+1
	for text := range strings.Lines(y.Value) {
		if body := strings.TrimLeft(text, " "); body != "\n" && body != "" {
			inFile := p.cursor.text(line)
			indent = len(inFile) - len(strings.TrimLeft(inFile, " ")) - (len(text) - len(body))
			break
		}
		line++
	}
	return origin{line: y.Line + p.origin.line, column: max(indent, 0) + p.origin.column}
}
