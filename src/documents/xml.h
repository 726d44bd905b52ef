// XML of documents. Names count without their prefixes, which each file may choose.
#pragma once

#include <pugixml.hpp>
#include <string>
#include <string_view>

namespace longformer::documents {

/// Parses a part that `name` stands for in messages. Entities that a file declares are never
/// expanded. Throws Error, `damaged`, for what is no XML.
pugi::xml_document xml_of(const std::string& bytes, std::string_view name);

/// The name of an element without its prefix; empty for what is no element.
std::string_view local_name(const pugi::xml_node& node);

/// The first child of this local name.
pugi::xml_node child_of(const pugi::xml_node& node, std::string_view name);

/// The value of an attribute by its local name; empty where there is none.
std::string_view value_of(const pugi::xml_node& node, std::string_view name);

/// Throws Error, `damaged`, for elements that are nested deeper than any document needs.
void check_depth(int depth);

}  // namespace longformer::documents
