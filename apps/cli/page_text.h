// The pages of the HTML files beside the sources, which the build turns into strings.
#pragma once

#include <string_view>

namespace longformer::cli {

/// With <!--TITLE-->, <!--DATA--> and <!--MAPS--> where the content goes.
extern const std::string_view kAttentionPage;
/// With <!--TITLE--> and <!--DATA-->.
extern const std::string_view kSourcesPage;
/// The same.
extern const std::string_view kCoreferencePage;

}  // namespace longformer::cli
