// The text of a document, paragraph by paragraph, with its places.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "longformer/document_files.h"

namespace longformer::documents {

/// Paragraphs with an empty line between them, cells with tabs, rows and items of lists with a new
/// line: the form that HTML has too. Paragraphs of white space alone are none.
class PlacedText {
 public:
  /// `unit` as in DocumentPlaces.
  explicit PlacedText(std::string_view unit) { contents_.places.unit = unit; }

  /// Begins a place with the next text.
  void begin_place() { begins_place_ = true; }
  /// Puts at least so many line breaks before the next text.
  void separate(std::size_t lines);
  /// Puts a tab before the next text.
  void next_cell();

  /// Text of the paragraph that is written.
  void add(std::string_view text) { paragraph_ += text; }
  bool has_paragraph() const { return !paragraph_.empty(); }
  /// Whether the paragraph ends with white space, or is empty.
  bool ends_with_space() const;
  void end_paragraph();

  /// Bytes written so far.
  std::size_t size() const { return contents_.text.size(); }
  /// The text in valid UTF-8.
  DocumentContents take();

 private:
  DocumentContents contents_;
  std::string paragraph_;
  std::size_t lines_ = 0, tabs_ = 0;
  std::int64_t characters_ = 0;
  bool begins_place_ = false;
};

}  // namespace longformer::documents
