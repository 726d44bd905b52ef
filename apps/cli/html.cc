#include "html.h"

namespace longformer::cli {

std::string escaped_html(std::string_view text) {
  std::string result;
  for (const char character : text) {
    switch (character) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      default:
        result += character;
    }
  }
  return result;
}

std::string escaped_json(std::string_view json) {
  std::string result;
  for (const char character : json) {
    if (character == '<') {
      result += "\\u003c";
    } else {
      result += character;
    }
  }
  return result;
}

std::string filled_page(std::string_view page, std::string_view title, std::string_view json) {
  std::string filled(page);
  const auto put = [&filled](std::string_view mark, const std::string& content) {
    filled.replace(filled.find(mark), mark.size(), content);
  };
  put("<!--DATA-->", escaped_json(json));
  put("<!--TITLE-->", escaped_html(title));
  return filled;
}

}  // namespace longformer::cli
