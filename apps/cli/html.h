// Content on its way into a page.
#pragma once

#include <string>
#include <string_view>

namespace longformer::cli {

std::string escaped_html(std::string_view text);
/// JSON inside of a <script> element: no "<" may be left, as one could end the element.
std::string escaped_json(std::string_view json);

/// A page of the program with <!--TITLE--> and <!--DATA-->, filled in.
std::string filled_page(std::string_view page, std::string_view title, std::string_view json);

}  // namespace longformer::cli
