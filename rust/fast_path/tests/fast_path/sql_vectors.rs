//! The results of the official filter for many expressions over many maps of properties
//! (`tests/golden/vectors/filters.json`), and ours.

use std::collections::BTreeMap;
use std::fs;

use mqcore_fast_path::sql::Sql;
use serde_json::Value;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/golden/vectors/filters.json"
);

fn texts(map: &Value) -> Vec<u8> {
    let map: BTreeMap<String, String> = serde_json::from_value(map.clone()).unwrap();
    let pairs = map
        .iter()
        .map(|(name, value)| format!("{name}\u{1}{value}\u{2}"));
    pairs.collect::<String>().into_bytes()
}

#[test]
fn every_expression_means_what_it_means_officially() {
    let file: Value = serde_json::from_str(&fs::read_to_string(FILE).unwrap()).unwrap();
    let maps: Vec<Vec<u8>> = file["maps"].as_array().unwrap().iter().map(texts).collect();
    let cases = file["cases"].as_array().unwrap();
    assert!(maps.len() > 20 && cases.len() > 400);
    let mut wrong = Vec::new();
    for case in cases {
        let (text, wanted) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        // Null, false and what throws want nothing alike.
        let wanted: String = wanted
            .chars()
            .map(|c| if "NFE".contains(c) { '.' } else { c })
            .collect();
        let response = match Sql::compile(text) {
            Err(_) => "!".to_owned(),
            Ok(sql) => {
                let response = maps
                    .iter()
                    .map(|map| if sql.matches(map) { 'T' } else { '.' });
                response.collect()
            }
        };
        if response != wanted {
            wrong.push(format!(
                "{text:?}\n  says     {response}\n  official {wanted}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
