// Text as a page shows it: white space, paragraphs, lines and cells.
#pragma once

#include <string>
#include <string_view>

#include "text/html_elements.h"

namespace longformer::text {

/// Takes elements and characters as they come; what is hidden never comes.
class ShownText {
 public:
  void begin(const HtmlElement& element);
  void end(const HtmlElement& element);
  void add(std::string_view characters, bool preformatted);
  std::string take();

 private:
  /// Separator before the next text: the strongest one asked for.
  enum class Separator { none, space, cell, line, paragraph };

  void separate(Separator separator);
  void separate_by(HtmlRole role);
  void write_separator();
  void add_preformatted(std::string_view characters);
  void trim();

  std::string text_;
  Separator separator_ = Separator::none;
  bool at_begin_of_preformatted_ = false;
};

}  // namespace longformer::text
