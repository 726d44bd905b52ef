#include "documents/xml.h"

#include "documents/document_fault.h"

namespace longformer::documents {
namespace {

std::string_view without_prefix(std::string_view name) { return name.substr(name.find(':') + 1); }

}  // namespace

pugi::xml_document xml_of(const std::string& bytes, std::string_view name) {
  pugi::xml_document document;
  const pugi::xml_parse_result result =
      document.load_buffer(bytes.data(), bytes.size(), pugi::parse_default | pugi::parse_ws_pcdata);
  require_or(FileFault::damaged, result, "part \"{}\": expected XML, found at byte {}: {}", name,
             result.offset, result.description());
  return document;
}

std::string_view local_name(const pugi::xml_node& node) {
  return node.type() == pugi::node_element ? without_prefix(node.name()) : std::string_view();
}

pugi::xml_node child_of(const pugi::xml_node& node, std::string_view name) {
  return node.find_child([&](const pugi::xml_node& child) { return local_name(child) == name; });
}

std::string_view value_of(const pugi::xml_node& node, std::string_view name) {
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    if (without_prefix(attribute.name()) == name) return attribute.value();
  }
  return {};
}

void check_depth(int depth) {
  require_or(FileFault::too_large, depth <= Limits::depth,
             "expected at most {} elements within each other, found more", Limits::depth);
}

}  // namespace longformer::documents
