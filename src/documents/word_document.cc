#include <algorithm>
#include <charconv>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "documents/document_fault.h"
#include "documents/placed_text.h"
#include "documents/readers.h"
#include "documents/xml.h"
#include "text/unicode.h"

namespace longformer::documents {
namespace {

constexpr const char* kMainPart = "word/document.xml";
constexpr const char* kRootRelationships = "_rels/.rels";

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// A property is on without a value, and with all but 0, false and off.
bool is_on(const pugi::xml_node& property) {
  return property && !is_one_of(value_of(property, "val"), {"0", "false", "off"});
}

/// The part that `from` refers to by a relationship whose type ends so; empty without one.
std::string related(DocumentArchive& archive, const std::string& from, std::string_view type) {
  const std::size_t folder = from.rfind('/') + 1;
  const std::string list = from.empty()
                               ? kRootRelationships
                               : from.substr(0, folder) + "_rels/" + from.substr(folder) + ".rels";
  if (!archive.has(list)) return {};
  const pugi::xml_document document = xml_of(archive.part(list, Limits::xml), list);
  for (const pugi::xml_node& one : document.document_element().children()) {
    if (value_of(one, "Type").ends_with(type)) return referred_part(from, value_of(one, "Target"));
  }
  return {};
}

std::string main_part(DocumentArchive& archive) {
  const std::string part = related(archive, "", "/officeDocument");
  return part.empty() ? kMainPart : part;
}

/// Alternatives for programs of different age: the first is the newest.
pugi::xml_node chosen(const pugi::xml_node& alternatives) {
  const pugi::xml_node choice = child_of(alternatives, "Choice");
  return choice ? choice : child_of(alternatives, "Fallback");
}

/// Elements that have text which is not of the document as it is now, or no text.
bool is_left_out(std::string_view name) {
  return is_one_of(name, {"pPr", "rPr", "del", "moveFrom", "delText", "instrText", "delInstrText",
                          "sectPr", "tblPr", "tblGrid", "trPr", "tcPr", "sdtPr", "sdtEndPr", "rt",
                          "altChunk", "docPr", "fldData"});
}

class WordText {
 public:
  void body(const std::string& xml) {
    const pugi::xml_document document = xml_of(xml, kMainPart);
    const pugi::xml_node body = child_of(document.document_element(), "body");
    require_or(FileFault::damaged, !body.empty(),
               "expected a body in the Word document, found none");
    blocks(body, 0);
  }

  /// Notes that the body refers to, in the order of its references. `kind` is the name of a note.
  void notes(const std::string& xml, std::string_view kind) {
    if (xml.empty()) return;
    const pugi::xml_document document = xml_of(xml, kind);
    std::map<std::string_view, pugi::xml_node> known;
    for (const pugi::xml_node& one : document.document_element().children()) {
      if (local_name(one) == kind) known.emplace(value_of(one, "id"), one);
    }
    // A note may refer to others, which follow it.
    for (std::size_t i = 0; i < references_.size(); ++i) {
      if (references_[i].first != kind) continue;
      const auto found = known.find(references_[i].second);
      if (found == known.end()) continue;
      const pugi::xml_node note = found->second;
      // Each note stands once, however often it is referred to.
      known.erase(found);
      separate(2);
      blocks(note, 0);
    }
  }

  DocumentContents take() { return text_.take(); }

 private:
  void blocks(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "p") {
        paragraph(child, depth + 1);
      } else if (name == "tbl") {
        separate(2);
        rows(child, depth + 1);
        separate(2);
      } else if (name == "AlternateContent") {
        blocks(chosen(child), depth + 1);
      } else if (!is_left_out(name)) {
        blocks(child, depth + 1);
      }
    }
  }

  void rows(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "tr") {
        if (child_of(child_of(child, "trPr"), "del")) continue;
        separate(1);
        bool is_first = true;
        cells(child, is_first, depth + 1);
      } else if (!is_left_out(name)) {
        rows(child, depth + 1);
      }
    }
  }

  void cells(const pugi::xml_node& parent, bool& is_first, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "tc") {
        if (child_of(child_of(child, "tcPr"), "cellDel")) continue;
        if (!std::exchange(is_first, false)) text_.next_cell();
        const auto outer = std::exchange(cell_begin_, text_.size());
        blocks(child, depth + 1);
        cell_begin_ = outer;
      } else if (!is_left_out(name)) {
        cells(child, is_first, depth + 1);
      }
    }
  }

  void paragraph(const pugi::xml_node& node, int depth) {
    const pugi::xml_node properties = child_of(node, "pPr");
    const bool is_item = !child_of(properties, "numPr").empty();
    if (!text_.has_paragraph()) begin_paragraph(is_item);
    was_item_ = is_item;
    inlines(node, depth);
    const pugi::xml_node mark = child_of(properties, "rPr");
    // Without its mark a paragraph goes on in the next one.
    if (!child_of(mark, "del") && !child_of(mark, "moveFrom")) text_.end_paragraph();
    std::vector<pugi::xml_node> boxes;
    boxes.swap(boxes_);
    for (const pugi::xml_node& box : boxes) {
      text_.end_paragraph();
      blocks(box, depth + 1);
    }
  }

  void begin_paragraph(bool is_item) {
    separate(is_item && was_item_ ? 1 : 2);
    text_.begin_place();
  }

  /// Within a cell a new line is enough, and none at its beginning.
  void separate(std::size_t lines) {
    if (!cell_begin_) {
      text_.separate(lines);
    } else if (text_.size() > *cell_begin_) {
      text_.separate(1);
    }
  }

  void inlines(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "t") {
        add_text(child);
      } else if (name == "footnoteReference" || name == "endnoteReference") {
        const std::size_t kind = name.size() - std::string_view("Reference").size();
        references_.emplace_back(name.substr(0, kind), value_of(child, "id"));
      } else if (name == "AlternateContent") {
        inlines(chosen(child), depth + 1);
      } else if (name == "txbxContent") {
        boxes_.push_back(child);
      } else if (name == "r" && is_on(child_of(child_of(child, "rPr"), "vanish"))) {
        continue;
      } else if (!add_character(child, name) && !is_left_out(name)) {
        inlines(child, depth + 1);
      }
    }
  }

  /// Space at the ends counts where the element says so.
  void add_text(const pugi::xml_node& node) {
    std::string text;
    for (const pugi::xml_node& child : node.children()) text += child.value();
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '\n' || c == '\t' || c == '\r'; }, ' ');
    std::string_view shown = text;
    if (value_of(node, "space") != "preserve") {
      shown.remove_prefix(std::min(shown.find_first_not_of(' '), shown.size()));
      shown = shown.substr(0, shown.find_last_not_of(' ') + 1);
    }
    text_.add(shown);
  }

  /// Whether the element stands for a character.
  bool add_character(const pugi::xml_node& node, std::string_view name) {
    if (name == "tab" || name == "ptab") {
      text_.add("\t");
    } else if (name == "br" || name == "cr") {
      text_.add("\n");
    } else if (name == "noBreakHyphen") {
      text_.add("-");
    } else if (name == "sym") {
      add_symbol(value_of(node, "char"));
    } else {
      return false;
    }
    return true;
  }

  /// A character of a font; those that only the font knows are none.
  void add_symbol(std::string_view digits) {
    std::uint32_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    const bool is_private = value >= 0xe000 && value <= 0xf8ff;
    const bool is_character = value >= 0x20 && value < 0xd800;
    if (!is_character || is_private) return;
    std::string symbol;
    text::append_utf8(value, symbol);
    text_.add(symbol);
  }

  PlacedText text_ = PlacedText("paragraph");
  /// Bytes written before the cell that is read.
  std::optional<std::size_t> cell_begin_;
  std::vector<pugi::xml_node> boxes_;
  /// The kinds and ids of notes.
  std::vector<std::pair<std::string, std::string>> references_;
  bool was_item_ = false;
};

}  // namespace

bool is_word_document(DocumentSource& source) {
  if (!source.archive) return false;
  if (!source.archive->has(kRootRelationships)) return source.archive->has(kMainPart);
  const std::string part = main_part(*source.archive);
  // Tables and slides are of another kind.
  return source.archive->has(part) && part.find("xl/") != 0 && part.find("ppt/") != 0 &&
         part.find("visio/") != 0;
}

DocumentContents word_document(DocumentSource& source) {
  DocumentArchive& archive = *source.archive;
  const std::string part = main_part(archive);
  const auto notes = [&](std::string_view type) {
    const std::string name = related(archive, part, type);
    return archive.has(name) ? archive.part(name, Limits::xml) : std::string();
  };
  const std::string main = archive.part(part, Limits::xml);
  return word_text(main, notes("/footnotes"), notes("/endnotes"));
}

DocumentContents word_text(const std::string& main, const std::string& footnotes,
                           const std::string& endnotes) {
  WordText text;
  text.body(main);
  text.notes(footnotes, "footnote");
  text.notes(endnotes, "endnote");
  return text.take();
}

}  // namespace longformer::documents
