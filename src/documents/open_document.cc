#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "documents/document_fault.h"
#include "documents/placed_text.h"
#include "documents/readers.h"
#include "documents/xml.h"

namespace longformer::documents {
namespace {

constexpr const char* kContent = "content.xml";
constexpr std::string_view kTextType = "application/vnd.oasis.opendocument.text";
/// More blanks than these in a row are a fault, or an attack.
constexpr std::size_t kMostBlanks = 1000;

/// Elements whose text is not of the document as it is shown: deleted text, comments, alternative
/// texts of pictures, patterns of tables of contents, declarations.
bool is_hidden(std::string_view name) {
  constexpr std::array kHidden = {
      std::string_view("tracked-changes"), std::string_view("annotation"),
      std::string_view("title"),           std::string_view("desc"),
      std::string_view("ruby-text"),       std::string_view("forms"),
      std::string_view("scripts"),         std::string_view("event-listeners")};
  return std::find(kHidden.begin(), kHidden.end(), name) != kHidden.end() ||
         name.ends_with("-source") || name.ends_with("-decls");
}

class OpenDocumentText {
 public:
  void body(const pugi::xml_node& text) {
    blocks(text, 0);
    // A note may have notes, which follow it.
    for (std::size_t i = 0; i < notes_.size(); ++i) {
      text_.separate(2);
      const pugi::xml_node note = notes_[i];
      blocks(note, 0);
    }
  }

  DocumentContents take() { return text_.take(); }

 private:
  void blocks(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "p" || name == "h") {
        paragraph(child, depth + 1);
      } else if (name == "list") {
        list(child, depth + 1);
      } else if (name == "table") {
        separate(2);
        rows(child, depth + 1);
        separate(2);
      } else if (!is_hidden(name)) {
        blocks(child, depth + 1);
      }
    }
  }

  void list(const pugi::xml_node& node, int depth) {
    if (lists_ == 0) separate(2);
    ++lists_;
    blocks(node, depth);
    --lists_;
  }

  void rows(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      const std::string_view name = local_name(child);
      if (name == "table-row") {
        separate(1);
        cells(child, depth + 1);
      } else if (!is_hidden(name)) {
        rows(child, depth + 1);
      }
    }
  }

  void cells(const pugi::xml_node& row, int depth) {
    bool is_first = true;
    for (const pugi::xml_node& child : row.children()) {
      const std::string_view name = local_name(child);
      if (name != "table-cell" && name != "covered-table-cell") continue;
      if (!std::exchange(is_first, false)) text_.next_cell();
      // A covered cell is not shown.
      if (name != "table-cell") continue;
      const auto outer = std::exchange(cell_begin_, text_.size());
      const int lists = std::exchange(lists_, 0);
      blocks(child, depth + 1);
      cell_begin_ = outer;
      lists_ = lists;
    }
  }

  void paragraph(const pugi::xml_node& node, int depth) {
    // Items of a list follow each other, the first one does not.
    separate(lists_ > 0 ? 1 : 2);
    text_.begin_place();
    inlines(node, depth);
    text_.end_paragraph();
    std::vector<pugi::xml_node> boxes;
    boxes.swap(boxes_);
    for (const pugi::xml_node& box : boxes) blocks(box, depth + 1);
  }

  void inlines(const pugi::xml_node& parent, int depth) {
    check_depth(depth);
    for (const pugi::xml_node& child : parent.children()) {
      if (child.type() == pugi::node_pcdata || child.type() == pugi::node_cdata) {
        add_text(child.value());
        continue;
      }
      const std::string_view name = local_name(child);
      if (name == "s") {
        text_.add(std::string(blanks_of(child), ' '));
        after_blank_ = false;
      } else if (name == "tab" || name == "line-break") {
        text_.add(name == "tab" ? "\t" : "\n");
        after_blank_ = false;
      } else if (name == "note") {
        notes_.push_back(child_of(child, "note-body"));
      } else if (name == "text-box") {
        boxes_.push_back(child);
      } else if (!is_hidden(name)) {
        inlines(child, depth + 1);
      }
    }
  }

  /// Within a cell a new line is enough, and none at its beginning.
  void separate(std::size_t lines) {
    if (!cell_begin_) {
      text_.separate(lines);
    } else if (text_.size() > *cell_begin_) {
      text_.separate(1);
    }
  }

  static std::size_t blanks_of(const pugi::xml_node& node) {
    const std::string_view digits = value_of(node, "c");
    std::size_t count = 1;
    std::from_chars(digits.data(), digits.data() + digits.size(), count);
    return std::min(count, kMostBlanks);
  }

  /// White space counts once, and not at the beginning of a paragraph.
  void add_text(std::string_view text) {
    std::string shown;
    if (!text_.has_paragraph()) after_blank_ = true;
    for (const char c : text) {
      const bool is_blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (!is_blank || !after_blank_) shown += is_blank ? ' ' : c;
      after_blank_ = is_blank;
    }
    text_.add(shown);
  }

  PlacedText text_ = PlacedText("paragraph");
  /// Bytes written before the cell that is read.
  std::optional<std::size_t> cell_begin_;
  std::vector<pugi::xml_node> boxes_, notes_;
  int lists_ = 0;
  bool after_blank_ = true;
};

/// Throws Error for a document with a password.
void require_no_password(DocumentArchive& archive) {
  constexpr const char* kManifest = "META-INF/manifest.xml";
  bool is_locked = archive.has("encrypted-package");
  if (!is_locked && archive.has(kManifest)) {
    const pugi::xml_document manifest = xml_of(archive.part(kManifest, Limits::xml), kManifest);
    for (const pugi::xml_node& entry : manifest.document_element().children()) {
      is_locked = is_locked || child_of(entry, "encryption-data");
    }
  }
  require_or(FileFault::locked, !is_locked,
             "expected an OpenDocument text, found one with a password: save it without");
}

}  // namespace

bool is_open_document(DocumentSource& source) {
  if (!source.archive || !source.archive->has("mimetype")) return false;
  return source.archive->part("mimetype", kMostBlanks).starts_with(kTextType);
}

DocumentContents open_document(DocumentSource& source) {
  require_no_password(*source.archive);
  return open_document_text(source.archive->part(kContent, Limits::xml));
}

DocumentContents open_document_text(const std::string& content) {
  const pugi::xml_document document = xml_of(content, kContent);
  const pugi::xml_node text = child_of(child_of(document.document_element(), "body"), "text");
  require_or(FileFault::damaged, !text.empty(), "expected a text in the OpenDocument, found none");
  OpenDocumentText reader;
  reader.body(text);
  return reader.take();
}

}  // namespace longformer::documents
