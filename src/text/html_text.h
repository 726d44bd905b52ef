// Pages of HTML as the text that a reader sees.
#pragma once

#include <string>
#include <string_view>

namespace longformer::text {

/// The charset that a page declares near its beginning, in a meta element or, as XHTML, in its XML
/// declaration; empty where it declares none.
std::string html_charset(std::string_view bytes);

/// The text of a page in valid UTF-8; see longformer::document_text. Takes anything for a page.
std::string html_text(std::string_view html);

}  // namespace longformer::text
