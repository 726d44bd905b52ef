// The pages of the HTML files beside the sources, which the build turns into strings.
#pragma once

#include <string_view>

namespace longformer::cli {

/// Page with the marks <!--TITLE-->, <!--DATA--> and <!--MAPS--> for its content.
extern const std::string_view kAttentionPage;
/// Page with the marks <!--TITLE--> and <!--DATA-->.
extern const std::string_view kSourcesPage;
/// Page with the marks <!--TITLE--> and <!--DATA-->.
extern const std::string_view kCoreferencePage;
/// Page with the marks <!--TITLE--> and <!--DATA-->.
extern const std::string_view kExplanationPage;

}  // namespace longformer::cli
