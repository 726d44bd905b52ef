// The page of page.html, which the build turns into a string.
#pragma once

#include <string_view>

namespace longformer::cli {

/// With <!--TITLE-->, <!--DATA--> and <!--MAPS--> where the content goes.
extern const std::string_view kAttentionPage;

}  // namespace longformer::cli
