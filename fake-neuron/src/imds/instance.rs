//! What an instance knows about itself. Everything but the type, the id and the zone is made from the id, so that one instance
//! always has the same.

use super::Zone;
use crate::machine::description::stable_hash;

/// An EC2 instance, as its metadata describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Instance type or alias, such as `trn2.48xlarge`.
    pub instance_type: String,
    /// Instance id, such as `i-0123456789abcdef0`.
    pub instance_id: String,
    /// Availability zone, such as `us-east-1a`.
    pub availability_zone: String,
    /// The zone's id, the same for every account, such as `use1-az1`. The real number belongs to the account; here zone `a` is 1.
    pub availability_zone_id: String,
    /// Region, such as `us-east-1`.
    pub region: String,
    /// Image it was started from, such as `ami-0123456789abcdef0`.
    pub ami_id: String,
    /// Its only network card's address, six bytes in hex with colons between.
    pub mac: String,
    /// Subnet of that card, such as `subnet-0123456789abcdef0`.
    pub subnet_id: String,
    /// Network of that subnet, such as `vpc-0123456789abcdef0`.
    pub vpc_id: String,
    /// Id of that card, such as `eni-0123456789abcdef0`.
    pub interface_id: String,
    /// Id of the card's security group, such as `sg-0123456789abcdef0`.
    pub security_group_id: String,
    /// Id of the launch, such as `r-0123456789abcdef0`.
    pub reservation_id: String,
    /// Private address, in 10.0.0.0/16.
    pub local_ipv4: String,
    /// Private name, such as `ip-10-0-12-34.ec2.internal`.
    pub hostname: String,
    /// Account of the owner, twelve digits.
    pub owner_id: String,
}

impl Instance {
    /// The instance of this type and id, in `us-east-1a` as long as nobody says another zone.
    pub fn of(instance_type: &str, instance_id: &str) -> Self {
        let id = |kind: &str| format!("{kind}-0{:016x}", stable_hash(&format!("{instance_id}/{kind}")));
        let [.., third, fourth, a, b, c, d] = stable_hash(&format!("{instance_id}/card")).to_be_bytes();
        // The first four addresses of a subnet and its last belong to AWS.
        let (third, fourth) = (third, fourth.clamp(4, 254));
        let instance = Self {
            instance_type: instance_type.to_owned(),
            instance_id: instance_id.to_owned(),
            availability_zone: String::new(),
            availability_zone_id: String::new(),
            region: String::new(),
            ami_id: id("ami"),
            mac: format!("06:{third:02x}:{a:02x}:{b:02x}:{c:02x}:{d:02x}"),
            subnet_id: id("subnet"),
            vpc_id: id("vpc"),
            interface_id: id("eni"),
            security_group_id: id("sg"),
            reservation_id: id("r"),
            local_ipv4: format!("10.0.{third}.{fourth}"),
            hostname: String::new(),
            owner_id: "123456789012".to_owned(),
        };
        instance.in_zone(&Zone::default())
    }

    /// The same instance in another availability zone.
    #[must_use]
    pub fn in_zone(mut self, zone: &Zone) -> Self {
        let region = zone.region();
        self.availability_zone = zone.to_string();
        self.availability_zone_id = zone.id();
        self.region = region.to_owned();
        // us-east-1 is older than the rule that names carry the region.
        let domain = if region == "us-east-1" { "ec2" } else { &format!("{region}.compute") };
        self.hostname = format!("ip-{}.{domain}.internal", self.local_ipv4.replace('.', "-"));
        self
    }
}
