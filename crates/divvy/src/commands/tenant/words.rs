//! Tenants by id in words, for people.

use crate::output::{plain, sizes};
use crate::tenants::limits;
use crate::wire::by_id::TenantReport;

fn state(tenant: &TenantReport) -> String {
    let lives = match tenant.processes {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    let paused = if tenant.paused { ", paused" } else { "" };
    match (tenant.served, &tenant.reason) {
        (true, _) => format!("{lives}{paused}"),
        (false, Some(reason)) => format!("{lives}{paused}; not served, {reason}"),
        (false, None) => format!("{lives}{paused}; not served yet"),
    }
}

pub(super) fn line(tenant: &TenantReport) -> String {
    let text = format!("{} of uid {}: {}", tenant.id, tenant.uid, state(tenant));
    format!("{}\n", plain::line(&text))
}

pub(super) fn words(tenant: &TenantReport) -> String {
    let weight = match tenant.weight {
        0 => "default".to_owned(),
        weight => weight.to_string(),
    };
    let mut lines = vec![
        format!("{} of uid {}: {}", tenant.id, tenant.uid, state(tenant)),
        format!("  directory {}", tenant.directory),
        format!(
            "  weight {weight}, priority {}, class {}{}",
            tenant.priority,
            tenant.class,
            if tenant.oversubscribe { ", memory may leave the card" } else { "" }
        ),
    ];
    for device in &tenant.devices {
        let limit = device.limit_bytes.map_or_else(|| "no limit".to_owned(), sizes::text);
        let cap = device.share_ppm.map(|ppm| limits::percent(u64::from(ppm)));
        lines.push(format!(
            "  {}: {} held of {limit}; compute {}",
            device.uuid,
            sizes::text(device.held_bytes),
            cap.unwrap_or_else(|| "no limit".to_owned())
        ));
    }
    if let Some(detail) = &tenant.detail {
        lines.push(format!("  {detail}"));
    }
    lines.iter().map(|line| format!("{}\n", plain::line(line))).collect()
}
